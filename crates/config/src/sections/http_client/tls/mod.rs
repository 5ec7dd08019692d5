//! TLS to upstreams: `tls` of the client or of a route. Files are read here, so that errors are found at start.

mod files;
mod spring;
mod stores;

use std::fmt;
use std::time::Duration;

use rustls::pki_types::ServerName;
use serde::Deserialize;

use crate::de;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::RawHttpClient;
use crate::sections::pem;
#[cfg(test)]
use crate::sections::scalars::Scalar;
use crate::sections::ssl_bundle::{KeyPair, Trusted};
use crate::yaml::{Node, Span};

/// TLS by files in PEM, or by stores in PKCS#12.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawClientTls {
    /// Trusted CA certificates, or certificates of the upstreams themselves. Default: the system's trust store.
    ca: Option<Spanned<String>>,
    /// Client certificate of the gateway, with its chain.
    cert: Option<Spanned<String>>,
    /// Private key of `cert`, not encrypted.
    key: Option<Spanned<String>>,
    /// Key store in PKCS#12 with the client certificate of the gateway, its chain and its key, instead of `cert` and `key`.
    key_store: Option<Spanned<String>>,
    /// Password of `key-store`.
    key_store_password: Option<Spanned<String>>,
    #[cfg_attr(test, schemars(skip))]
    key_store_type: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    key_password: Option<Spanned<String>>,
    /// Name of the key in `key-store`. Default: its only key.
    key_alias: Option<Spanned<String>>,
    /// Trust store in PKCS#12 with the trusted certificates, instead of `ca`.
    trust_store: Option<Spanned<String>>,
    /// Password of `trust-store`.
    trust_store_password: Option<Spanned<String>>,
    #[cfg_attr(test, schemars(skip))]
    trust_store_type: Option<NodeRef>,
    /// Name that an upstream's certificate must have, also sent as SNI. Default: the target's host.
    server_name: Option<Spanned<String>>,
    /// Accepts all certificates. Default false: with it, traffic can be intercepted.
    insecure: Option<Spanned<bool>>,
    /// Oldest accepted version of TLS: `1.2` or `1.3`. Default `1.2`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    min_version: Option<Spanned<String>>,
}

/// TLS to an upstream. Equal settings share connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Trusted certificates.
    pub trust: Trust,
    /// Client certificate of the gateway.
    pub identity: Option<Identity>,
    /// Name that the upstream's certificate must have, also sent as SNI; `None`: the target's host.
    pub server_name: Option<String>,
    /// Oldest accepted version.
    pub min_version: TlsVersion,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    /// RFC 5246.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Trusted certificates.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Certificates signed by the system's trusted CAs.
    #[default]
    System,
    /// Certificates signed by these CAs, each in DER.
    Authorities(Vec<Vec<u8>>),
    /// All certificates.
    AnyCertificate,
}

/// A certificate with its chain, and its key, in DER.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, then its chain.
    pub chain: Vec<Vec<u8>>,
    /// Private key in PEM, which names its type.
    pub key: Vec<u8>,
}

/// Checks the client's `tls` or `ssl`. Returns the settings and the handshake timeout; `None` if absent or after an
/// error.
pub(super) fn of_client(
    raw: &RawHttpClient,
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> (Option<Tls>, Option<Duration>) {
    let node = |whole: Option<_>| whole.and_then(|node| nodes.get(node));
    match (node(raw.tls), node(raw.ssl)) {
        (Some(tls), Some(ssl)) => {
            diagnostics
                .error(ssl.span.key(), "`ssl` and `tls` are both given")
                .beside(", the other at", tls.span.key())
                .help("remove one of the two");
            (None, None)
        }
        (Some(tls), None) => (check(tls, diagnostics), None),
        (None, Some(ssl)) => spring::check(ssl, nodes, diagnostics),
        (None, None) => (None, None),
    }
}

/// Checks `tls` of the client or of a route.
pub(crate) fn check(node: &Node, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let (raw, unknown) = de::read::<RawClientTls>(node, diagnostics);
    for unknown in &unknown {
        let name = unknown.path.last().map_or("", String::as_str);
        // A typo must not weaken TLS: an error in Spring files, too.
        diagnostics.error(unknown.span.key(), format!("unknown key `{name}`")).suggest(name, unknown.fields);
    }
    // `${UPSTREAM_CA:}` is empty in an environment without it.
    let given = |text: Option<Spanned<String>>| text.filter(|text| !text.value.trim().is_empty());
    let (key_store, trust_store) = stores::read(&raw, diagnostics)?;
    let (ca, cert, key) = (given(raw.ca), given(raw.cert), given(raw.key));
    let trust = match trust_store {
        Some(store) => stores::trust(store, ca.as_ref(), raw.insecure, diagnostics)?,
        None => trust(ca.as_ref(), raw.insecure, diagnostics)?,
    };
    let identity = match key_store {
        Some(store) => Some(stores::identity(store, cert.as_ref().or(key.as_ref()), diagnostics)?),
        None => identity(cert.as_ref(), key.as_ref(), diagnostics)?,
    };
    let server_name = given(raw.server_name);
    if let Some(name) = server_name.as_ref().filter(|name| ServerName::try_from(name.value.trim()).is_err()) {
        diagnostics
            .error(name.span, format!("`{}` is neither a host name nor an address", name.value))
            .help("a name like `orders.internal`, without port and scheme");
    }
    let server_name = server_name.map(|name| name.value.trim().to_owned());
    Some(Tls { trust, identity, server_name, min_version: min_version(raw.min_version.as_ref(), diagnostics) })
}

/// Returns settings that trust the CA certificates in the PEM file `ca`.
pub(crate) fn trusting(ca: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let file = Spanned { value: ca.to_owned(), span: at };
    Some(Tls { trust: trust(Some(&file), None, diagnostics)?, ..Tls::default() })
}

/// Returns the trusted certificates by `ca` and `insecure`.
fn trust(
    ca: Option<&Spanned<String>>,
    insecure: Option<Spanned<bool>>,
    diagnostics: &mut Diagnostics,
) -> Option<Trust> {
    match (ca, insecure.filter(|on| on.value)) {
        (Some(_), Some(on)) => {
            diagnostics
                .error(on.span.key(), "`insecure: true` accepts all certificates, which makes `ca` ineffective")
                .help("remove one of the two");
            None
        }
        (None, Some(on)) => {
            unchecked(on.span, "`ca`", diagnostics);
            Some(Trust::AnyCertificate)
        }
        (Some(file), None) => {
            let path = pem::file(file, "CERTIFICATE", diagnostics)?;
            files::authorities(&Trusted::Pem(path), file.span, diagnostics).map(Trust::Authorities)
        }
        (None, None) => Some(Trust::System),
    }
}

/// Returns the client certificate of `cert` and `key`, if they are given. The outer `None` is an error.
#[expect(clippy::option_option, reason = "the outer one tells an error from an absent certificate")]
fn identity(
    cert: Option<&Spanned<String>>,
    key: Option<&Spanned<String>>,
    diagnostics: &mut Diagnostics,
) -> Option<Option<Identity>> {
    match (cert, key) {
        (Some(cert), Some(key)) => {
            let files = (pem::file(cert, "CERTIFICATE", diagnostics), pem::file(key, "PRIVATE KEY", diagnostics));
            let (Some(cert), Some(file)) = files else { return None };
            files::identity(&KeyPair::Pem(cert, file), key.span, diagnostics).map(Some)
        }
        (None, None) => Some(None),
        (Some(at), None) | (None, Some(at)) => {
            diagnostics.error(at.span.key(), "`cert` and `key` are required together").help("give both, or neither");
            None
        }
    }
}

fn min_version(given: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) -> TlsVersion {
    let Some(given) = given else { return TlsVersion::Tls12 };
    match given.value.trim().trim_start_matches("TLSv") {
        "1.2" => TlsVersion::Tls12,
        "1.3" => TlsVersion::Tls13,
        other => {
            diagnostics
                .error(given.span, format!("`min-version` must be 1.2 or 1.3, found `{other}`"))
                .help("TLS before 1.2 is insecure and not supported");
            TlsVersion::Tls12
        }
    }
}

fn unchecked(at: Span, instead: &str, diagnostics: &mut Diagnostics) {
    diagnostics
        .warn(at.key(), "upstreams' certificates are not verified: traffic can be read and changed on the way")
        .help(format!("use {instead} for the CA that signs them"));
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::Authorities(all) => write!(f, "Authorities({})", all.len()),
            Self::AnyCertificate => f.write_str("AnyCertificate"),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}
