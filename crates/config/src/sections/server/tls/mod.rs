//! `server.ssl` and `management.server.ssl`: TLS with clients, by files, key stores or bundles, which are read and checked here.

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
use crate::de::{self, canonical};
use crate::diagnostics::Diagnostics;
use crate::diagnostics::UnknownKey;
use crate::sections::key_store::{StoreFile, StoreSettings};
#[cfg(test)]
use crate::sections::scalars::StringOrList;
use crate::yaml::{Node, Span};

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
    /// Key store in PKCS#12 with the gateway's certificate, its chain and its key, instead of files in PEM.
    key_store: Option<Spanned<String>>,
    /// Password of `key-store`.
    key_store_password: Option<Spanned<String>>,
    /// Name of the key in `key-store`. Default: its only key.
    key_alias: Option<Spanned<String>>,
    #[cfg_attr(test, schemars(skip))]
    key_password: Option<Spanned<String>>,
    /// Trust store in PKCS#12 with the CA certificates for client certificates, instead of `trust-certificate`.
    trust_store: Option<Spanned<String>>,
    /// Password of `trust-store`.
    trust_store_password: Option<Spanned<String>>,
    /// Client certificates: `none`, `want` (optional) or `need` (required). Default `none`.
    client_auth: Option<Spanned<RawClientAuth>>,
    /// `TLSv1.2`, `TLSv1.3` or both. Default both.
    #[cfg_attr(test, schemars(with = "Option<StringOrList>"))]
    enabled_protocols: Option<Vec<Spanned<String>>>,
    /// Name of a bundle of `spring.ssl.bundle`, instead of files.
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
    /// `None` after an error.
    key_pair: Option<KeyPair>,
    trusted: Option<Trusted>,
    protocols: Option<Vec<Spanned<String>>>,
}

/// Certificate and key as they are written.
#[derive(Debug)]
enum KeyPair {
    Pem { certificate: Option<Spanned<String>>, key: Option<Spanned<String>> },
    Store(StoreFile),
}

/// Trusted certificates as they are written.
#[derive(Debug)]
enum Trusted {
    Pem(Spanned<String>),
    Store(StoreFile),
}

impl Trusted {
    fn span(&self) -> Span {
        match self {
            Self::Pem(location) => location.span,
            Self::Store(store) => store.span(),
        }
    }
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
    unknown.iter().for_each(|unknown| report(unknown, diagnostics));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let bundles = raw.bundles.and_then(|node| nodes.get(node));
    let locations = match &raw.bundle {
        Some(name) => bundle::find(name, bundles, diagnostics),
        None => raw.locations(diagnostics),
    };
    let own = locations
        .as_ref()
        .and_then(|locations| identity::read(locations.key_pair.as_ref()?, node.span.key(), &provider, diagnostics));
    let by_name = names::read(raw.server_name_bundles.as_deref(), bundles, &provider, diagnostics);
    let locations = locations?;
    let trusted = raw.trust_certificate.map(Trusted::Pem).or(locations.trusted);
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

impl RawServerSsl {
    /// Returns the files and stores, but `trust-certificate`. Reports errors.
    fn locations(&self, diagnostics: &mut Diagnostics) -> Option<Locations> {
        let store = StoreSettings {
            location: self.key_store.clone(),
            password: self.key_store_password.clone(),
            key_password: self.key_password.clone(),
            alias: self.key_alias.clone(),
        };
        let trust = StoreSettings {
            location: self.trust_store.clone(),
            password: self.trust_store_password.clone(),
            ..StoreSettings::default()
        };
        let pem = self.certificate.as_ref().or(self.certificate_private_key.as_ref());
        let key_pair = match (store.file(diagnostics), pem) {
            (Some(Some(store)), Some(pem)) => {
                diagnostics
                    .error(pem.span.key(), "`certificate` and `key-store` are both given")
                    .beside(", the other at", store.span().key())
                    .help("remove one of the two");
                None
            }
            (Some(Some(store)), None) => Some(KeyPair::Store(store)),
            (Some(None), _) => {
                store.report_without_location("key-store", diagnostics);
                Some(KeyPair::Pem { certificate: self.certificate.clone(), key: self.certificate_private_key.clone() })
            }
            (None, _) => None,
        };
        let trusted = trust.file(diagnostics)?;
        match (&trusted, &self.trust_certificate) {
            (Some(store), Some(pem)) => {
                diagnostics
                    .error(pem.span.key(), "`trust-certificate` and `trust-store` are both given")
                    .beside(", the other at", store.span().key())
                    .help("remove one of the two");
                return None;
            }
            (None, _) => trust.report_without_location("trust-store", diagnostics),
            (Some(_), None) => {}
        }
        Some(Locations { key_pair, trusted: trusted.map(Trusted::Store), protocols: None })
    }
}

/// Reports a key without effect on TLS, or an unknown one.
fn report(unknown: &UnknownKey, diagnostics: &mut Diagnostics) {
    let at = unknown.span.key();
    match canonical(unknown.path.last().map_or("", String::as_str)).as_str() {
        "ciphers" => diagnostics
            .note(at, "`ciphers` has no effect: only suites with forward secrecy and AEAD are offered")
            .ineffective()
            .help("`enabled-protocols: [TLSv1.3]` narrows them further"),
        "protocol" => diagnostics
            .note(at, "`protocol` has no effect: `enabled-protocols` selects the versions")
            .ineffective()
            .help("remove it"),
        "keystoretype" | "keystoreprovider" | "truststoretype" | "truststoreprovider" => {
            diagnostics.note(at, "the type of a store is read from its contents").ineffective().help("remove it")
        }
        "certificateprivatekeypassword" | "trustcertificateprivatekey" => diagnostics
            .mistake(at, format!("`{}` has no effect", unknown.path.last().map_or("", String::as_str)))
            .ineffective()
            .help("private keys must not be encrypted, and a CA's key is not needed"),
        _ => diagnostics.unknown_key(unknown),
    }
}

/// Returns the enabled versions of TLS.
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

/// Returns the text of a node; `None` if it is no text.
fn scalar(node: &Node) -> Option<Spanned<String>> {
    node.scalar().map(|text| Spanned { value: text.to_owned(), span: node.span })
}
