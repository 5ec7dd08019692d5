//! `tls` of a client, a route or a registry. Files are read here, so that errors are found at start.

use std::fmt;

use rustls::pki_types::ServerName;

use crate::de::{self, NodeRef, OptionalText, Spanned};
use crate::diagnostics::{Diagnostics, Reported, UnknownKey};
#[cfg(test)]
use crate::sections::Scalar;
use crate::sections::no_effect;
use crate::sections::tls::files::{self, Files};
use crate::sections::tls::store::Store;
use crate::yaml::{Node, Span};

/// TLS by files in PEM, or by stores in PKCS#12.
#[section]
pub(crate) struct RawClientTls {
    /// Trusted CA certificates, or certificates of the upstreams themselves. Default: the system's trust store.
    ca: OptionalText,
    /// Client certificate of the gateway, with its chain.
    cert: OptionalText,
    /// Private key of `cert`, not encrypted.
    key: OptionalText,
    /// Key store in PKCS#12 with the client certificate of the gateway, its chain and its key, instead of `cert` and `key`.
    key_store: OptionalText,
    /// Password of `key-store`.
    key_store_password: Option<Spanned<String>>,
    key_store_type: Option<NodeRef>,
    key_password: Option<Spanned<String>>,
    /// Name of the key in `key-store`. Default: its only key.
    key_alias: OptionalText,
    /// Trust store in PKCS#12 with the trusted certificates, instead of `ca`.
    trust_store: OptionalText,
    /// Password of `trust-store`.
    trust_store_password: Option<Spanned<String>>,
    trust_store_type: Option<NodeRef>,
    /// Name that an upstream's certificate must have, also sent as SNI. Default: the target's host.
    server_name: OptionalText,
    /// Accepts all certificates. Default false: with it, traffic can be intercepted.
    insecure: Option<Spanned<bool>>,
    /// Oldest accepted version of TLS: `1.2` or `1.3`. Default `1.2`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    min_version: OptionalText,
}

/// Reason why the type of a store has no effect.
pub(super) const OF_CONTENTS: &str = "the type of a store is read from its contents";

/// Checks `tls`. Reports errors.
pub(crate) fn check(node: &Node, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let (raw, unknown) = de::read(node, diagnostics);
    settings(raw, &unknown, diagnostics)
}

/// Checks the settings in `raw`, whose section has the keys `unknown` besides. Reports errors.
pub(crate) fn settings(raw: RawClientTls, unknown: &[UnknownKey], diagnostics: &mut Diagnostics) -> Option<Tls> {
    for unknown in unknown {
        let name = unknown.path.last().map_or("", String::as_str);
        // A typo must not weaken TLS: an error in Spring files, too.
        diagnostics.error(unknown.span.key(), format!("unknown key `{name}`")).suggest(name, &unknown.fields);
    }
    let keys = [
        (raw.key_store_type.map(|at| at.0), "key-store-type", OF_CONTENTS),
        (raw.trust_store_type.map(|at| at.0), "trust-store-type", OF_CONTENTS),
    ];
    no_effect("", &keys, diagnostics);
    let server_name = raw.server_name.get().map(str::to_owned);
    if let Some(name) = raw.server_name.spanned().filter(|name| ServerName::try_from(name.as_str()).is_err()) {
        diagnostics
            .error(name.span, format!("`{}` is neither a host name nor an address", name.value))
            .help("a name like `orders.internal`, without port and scheme");
    }
    let min_version = min_version(&raw.min_version, diagnostics);
    let files = Files {
        certificate: raw.cert,
        key: raw.key,
        key_store: Store {
            location: raw.key_store,
            password: raw.key_store_password,
            key_password: raw.key_password,
            alias: raw.key_alias,
        },
        trusted: raw.ca,
        trust_store: Store { location: raw.trust_store, password: raw.trust_store_password, ..Store::default() },
        names: files::CLIENT,
        ..Files::default()
    };
    let trust = trust(&files, diagnostics);
    let identity = identity(&files, diagnostics);
    let trust = match (trust.ok()?, raw.insecure.filter(|on| on.value)) {
        (trust, None) => trust,
        (Trust::System, Some(on)) => {
            report_unverified(on.span, "`ca`", diagnostics);
            Trust::AnyCertificate
        }
        (_, Some(on)) => {
            let name = if files.trusted.get().is_some() { "ca" } else { "trust-store" };
            diagnostics
                .error(
                    on.span.key(),
                    format!("`insecure: true` accepts all certificates, which makes `{name}` ineffective"),
                )
                .help("remove one of the two");
            return None;
        }
    };
    Some(Tls { trust, identity: identity.ok()?, server_name, min_version })
}

/// Returns settings that trust the CA certificates in the PEM file `ca`.
pub(crate) fn trusting(ca: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let trusted = OptionalText::from(Spanned { value: ca.to_owned(), span: at });
    let files = Files { trusted, ..Files::default() };
    Some(Tls { trust: trust(&files, diagnostics).ok()?, ..Tls::default() })
}

/// Reads the trusted certificates; the system's if there are none. Reports errors.
pub(super) fn trust(files: &Files, diagnostics: &mut Diagnostics) -> Result<Trust, Reported> {
    let Some(trusted) = files.trusted(diagnostics)? else { return Ok(Trust::System) };
    let certificates = trusted.read(diagnostics)?;
    Ok(Trust::Authorities(certificates.iter().map(|certificate| certificate.to_vec()).collect()))
}

/// Reads the client certificate, if there is one. Reports errors.
pub(super) fn identity(files: &Files, diagnostics: &mut Diagnostics) -> Result<Option<Identity>, Reported> {
    let Some(pair) = files.key_pair(diagnostics)? else { return Ok(None) };
    let (certified, key) = pair.read(diagnostics)?;
    Ok(Some(Identity { chain: certified.cert.iter().map(|certificate| certificate.to_vec()).collect(), key }))
}

fn min_version(version: &OptionalText, diagnostics: &mut Diagnostics) -> TlsVersion {
    let Some(version) = version.spanned() else { return TlsVersion::Tls12 };
    match version.trim_start_matches("TLSv") {
        "1.2" => TlsVersion::Tls12,
        "1.3" => TlsVersion::Tls13,
        other => {
            diagnostics
                .error(version.span, format!("`min-version` must be 1.2 or 1.3, found `{other}`"))
                .help("TLS before 1.2 is insecure and not supported");
            TlsVersion::Tls12
        }
    }
}

/// Warns that certificates are not verified, and names the key to use instead.
pub(super) fn report_unverified(at: Span, instead: &str, diagnostics: &mut Diagnostics) {
    diagnostics
        .warn(at.key(), "upstreams' certificates are not verified: traffic can be read and changed on the way")
        .help(format!("use {instead} for the CA that signs them"));
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
