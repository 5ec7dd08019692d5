//! `server.ssl` and `management.server.ssl`: TLS with clients, by files or by bundles in PEM, which are read and checked here.

mod bundle;
mod clients;
mod identity;
mod names;

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::server::ResolvesServerCert;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use serde::Deserialize;

use self::names::ByName;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::{self, Unknown, canonical};
use crate::diagnostics::Diagnostics;
#[cfg(test)]
use crate::sections::scalars::StringOrList;
use crate::yaml::Node;

/// TLS with clients. A reload reads its files again.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServerSsl {
    /// Enables TLS. Default true if the section is there.
    enabled: Option<bool>,
    /// File in PEM with the gateway's certificate and its chain.
    certificate: Option<Spanned<String>>,
    /// File in PEM with the key of `certificate`, not encrypted.
    certificate_private_key: Option<Spanned<String>>,
    /// File in PEM with the CA certificates for client certificates.
    trust_certificate: Option<Spanned<String>>,
    /// Client certificates: `none`, `want` (optional) or `need` (required). Default `none`.
    client_auth: Option<Spanned<RawClientAuth>>,
    /// `TLSv1.2`, `TLSv1.3` or both. Default both.
    #[cfg_attr(test, schemars(with = "Option<StringOrList>"))]
    enabled_protocols: Option<Vec<Spanned<String>>>,
    /// Name of a bundle of `spring.ssl.bundle.pem`, instead of files.
    #[cfg_attr(test, schemars(skip))]
    bundle: Option<Spanned<String>>,
    /// Bundles by the name that a client requests (SNI).
    #[cfg_attr(test, schemars(skip))]
    server_name_bundles: Option<Vec<RawServerName>>,
    /// Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    #[cfg_attr(test, schemars(skip))]
    bundles: Option<NodeRef>,
}

/// Use of client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawClientAuth {
    /// Not requested.
    None,
    /// Requested; a client may have none, but a certificate must be valid.
    Want,
    /// Required.
    Need,
}

/// Bundle for a name that clients request (SNI).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServerName {
    server_name: Option<Spanned<String>>,
    bundle: Option<Spanned<String>>,
}

/// TLS with clients: valid certificates with their keys. Shared, so that clients can resume sessions on any
/// worker.
#[derive(Clone)]
pub struct ServerTls {
    /// Settings of the handshake.
    pub config: Arc<rustls::ServerConfig>,
    /// Certificates in DER, each with the name that clients request; the default has the name `""`.
    pub certificates: Vec<(String, CertificateDer<'static>)>,
    /// Asks clients for a certificate; they may have none under `client-auth: want`.
    pub identifies_clients: bool,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls") // keys must not be logged
    }
}

/// Nodes with the parts of a bundle, or of the plain keys.
#[derive(Debug, Default)]
struct Locations {
    certificate: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
    trusted: Option<Spanned<String>>,
    protocols: Option<Vec<Spanned<String>>>,
}

/// Checks `server.ssl` or `management.server.ssl`. Returns `None` for clear text, or after an error.
pub(crate) fn check(
    ssl: Option<NodeRef>,
    http2: bool,
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<ServerTls> {
    let node = ssl.and_then(|ssl| nodes.get(ssl))?;
    let (raw, unknown) = de::read::<RawServerSsl>(node, diagnostics);
    if raw.enabled == Some(false) {
        return None;
    }
    let is_explained = unknown.iter().filter(|unknown| !report(unknown, diagnostics)).count() > 0;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let bundles = raw.bundles.and_then(|node| nodes.get(node));
    let locations = match &raw.bundle {
        Some(name) => bundle::find(name, bundles, diagnostics),
        None => {
            Some(Locations { certificate: raw.certificate, key: raw.certificate_private_key, ..Locations::default() })
        }
    };
    let own = locations
        .as_ref()
        .and_then(|locations| identity::read(locations, node.span.key(), is_explained, &provider, diagnostics));
    let by_name = names::read(raw.server_name_bundles.as_deref(), bundles, &provider, diagnostics);
    let locations = locations.unwrap_or_default();
    let trusted = raw.trust_certificate.or(locations.trusted);
    let verifier = clients::verifier(raw.client_auth.as_ref(), trusted.as_ref(), &provider, diagnostics);
    let versions = versions(raw.enabled_protocols.or(locations.protocols), diagnostics);
    let built = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).map_err(|error| {
        diagnostics.error(node.span.key(), format!("invalid settings of TLS: {error}"));
    });
    let identities = Arc::new(ByName { default: own?, by_name: by_name? });
    let mut config = built
        .ok()?
        .with_client_cert_verifier(verifier?)
        .with_cert_resolver(Arc::clone(&identities) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = if http2 { vec![b"h2".into(), b"http/1.1".into()] } else { vec![b"http/1.1".into()] };
    // Tickets keep the session with the client, so the gateway holds no state for it.
    if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
        config.ticketer = ticketer;
    }
    let identifies_clients =
        raw.client_auth.is_some_and(|auth| matches!(auth.value, RawClientAuth::Want | RawClientAuth::Need));
    Some(ServerTls { config: Arc::new(config), certificates: identities.certificates(), identifies_clients })
}

/// Other keys of Spring's Java key stores, in canonical form. They are reported once, at the store.
const OF_STORES: [&str; 8] = [
    "keystorepassword",
    "keystoretype",
    "keystoreprovider",
    "keypassword",
    "keyalias",
    "truststorepassword",
    "truststoretype",
    "truststoreprovider",
];

/// Reports a key that is not read. Returns false if TLS cannot be used because of it.
fn report(unknown: &Unknown, diagnostics: &mut Diagnostics) -> bool {
    let name = unknown.path.last().map_or("", String::as_str);
    let at = unknown.span.key();
    match canonical(name).as_str() {
        "keystore" => {
            diagnostics.error(at, "`key-store` is a Java key store, which Tollgate cannot read").help(
                "`openssl pkcs12 -in STORE.p12 -nodes -out FILE.pem` writes it as PEM (a JKS first with `keytool \
                 -importkeystore -deststoretype pkcs12`): name that as `certificate` and `certificate-private-key`",
            );
            return false;
        }
        "truststore" => {
            diagnostics.error(at, "`trust-store` is a Java key store, which Tollgate cannot read").help(
                "`openssl pkcs12 -in STORE.p12 -nokeys -out FILE.pem` writes it as PEM: name that as `trust-certificate`",
            );
            return false;
        }
        other if OF_STORES.contains(&other) => {}
        other => report_ineffective(other, unknown, diagnostics),
    }
    true
}

/// Reports a key without effect on TLS, or an unknown one.
fn report_ineffective(canonical: &str, unknown: &Unknown, diagnostics: &mut Diagnostics) {
    let at = unknown.span.key();
    match canonical {
        "ciphers" => diagnostics
            .note(at, "`ciphers` has no effect: only suites with forward secrecy and AEAD are offered")
            .ineffective()
            .help("`enabled-protocols: [TLSv1.3]` narrows them further"),
        "protocol" => diagnostics
            .note(at, "`protocol` has no effect: `enabled-protocols` selects the versions")
            .ineffective()
            .help("remove it"),
        "certificateprivatekeypassword" | "trustcertificateprivatekey" => diagnostics
            .mistake(at, format!("`{}` has no effect", unknown.path.last().map_or("", String::as_str)))
            .ineffective()
            .help("private keys must not be encrypted, and a CA's key is not needed"),
        _ => de::report_unknown(unknown, diagnostics),
    }
}

/// Enabled versions of TLS.
fn versions(
    listed: Option<Vec<Spanned<String>>>,
    diagnostics: &mut Diagnostics,
) -> Vec<&'static SupportedProtocolVersion> {
    let all = vec![&version::TLS13, &version::TLS12];
    let Some(listed) = listed else { return all };
    let mut chosen: Vec<&'static SupportedProtocolVersion> = Vec::new();
    for name in &listed {
        match name.value.trim() {
            "TLSv1.3" => chosen.push(&version::TLS13),
            "TLSv1.2" => chosen.push(&version::TLS12),
            old @ ("TLSv1.1" | "TLSv1" | "SSLv3" | "SSLv2Hello") => diagnostics
                .mistake(name.span, format!("`{old}` is not supported: it is insecure (RFC 8996)"))
                .help("use `TLSv1.2` or `TLSv1.3`"),
            other => diagnostics
                .error(name.span, format!("expected `TLSv1.2` or `TLSv1.3`, found `{other}`"))
                .help("remove `enabled-protocols` for both"),
        }
    }
    match (chosen.is_empty(), listed.first()) {
        (true, Some(first)) => {
            diagnostics.error(first.span, "no version of TLS is left").help("use `TLSv1.2` or `TLSv1.3`");
            all
        }
        (true, None) => all,
        (false, _) => chosen,
    }
}

/// Text of a node; `None` if it is no text.
fn scalar(node: &Node) -> Option<Spanned<String>> {
    node.scalar().map(|text| Spanned { value: text.to_owned(), span: node.span })
}
