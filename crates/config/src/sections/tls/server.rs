//! `server.ssl` and `management.server.ssl`: TLS with clients, by files, key stores or bundles, which are read and checked here.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::server::ResolvesServerCert;
use rustls::{ServerConfig, SupportedProtocolVersion, version};

use crate::de::{self, Flag, OptionalText, Spanned, Subtree, canonical};
use crate::diagnostics::{Diagnostics, Reported, UnknownKey};
#[cfg(test)]
use crate::sections::StringOrList;
use crate::sections::tls::acme::{ACME_TLS, Acme};
use crate::sections::tls::bundle::{self, Bundle, Side};
use crate::sections::tls::client_auth::{ForwardClientCert, RawClientAuth, verifier};
use crate::sections::tls::files::{Files, Names};
use crate::sections::tls::identities::{Identities, RawCertificate, RawServerName, Sources};
use crate::sections::tls::store::Store;
use crate::yaml::Node;

/// TLS with clients. A reload reads its files again.
#[section]
pub(crate) struct RawServerSsl {
    /// Enables TLS. Default {} if the section is there.
    enabled: Flag<true>,
    /// File in PEM with the gateway's certificate and its chain.
    certificate: OptionalText,
    /// File in PEM with the key of `certificate`, not encrypted.
    certificate_private_key: OptionalText,
    /// File in PEM with the CA certificates for client certificates.
    trust_certificate: OptionalText,
    /// Key store in PKCS#12 with the gateway's certificate, its chain and its key, instead of files in PEM.
    key_store: OptionalText,
    /// Password of `key-store`.
    key_store_password: Option<Spanned<String>>,
    /// Name of the key in `key-store`. Default: its only key.
    key_alias: OptionalText,
    key_password: Option<Spanned<String>>,
    /// Trust store in PKCS#12 with the CA certificates for client certificates, instead of `trust-certificate`.
    trust_store: OptionalText,
    /// Password of `trust-store`.
    trust_store_password: Option<Spanned<String>>,
    /// Client certificates: `none`, `want` (optional) or `need` (required). Default `none`.
    client_auth: Option<Spanned<RawClientAuth>>,
    /// Fields that tell upstreams of a client's certificate: `off`, `client-cert` (`Client-Cert` and `Client-Cert-Chain`, RFC 9440) or `xfcc` (Envoy's `X-Forwarded-Client-Cert`). With `client-cert`, `Client-Cert` of `trusted-proxies` names the client, also with `enabled: false`. Default `off`.
    forward_client_cert: Option<ForwardClientCert>,
    /// `TLSv1.2`, `TLSv1.3` or both. Default both.
    #[cfg_attr(test, schemars(with = "Option<StringOrList>"))]
    enabled_protocols: Option<Vec<Spanned<String>>>,
    // Name of a bundle of `spring.ssl.bundle`, instead of files.
    bundle: OptionalText,
    /// Further certificates: each is for clients that request one of its DNS names (SNI). The default one is `certificate`, or else the first here.
    certificates: Option<Vec<RawCertificate>>,
    /// Bundles by the name that a client requests (SNI).
    #[cfg_attr(test, schemars(skip))]
    server_name_bundles: Option<Vec<RawServerName>>,
    // Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    bundles: Option<Subtree>,
}

/// TLS with clients: valid certificates with their keys. Shared, so that clients can resume sessions on any
/// worker.
#[derive(Clone)]
pub struct ServerTls {
    /// Settings of the handshake.
    pub config: Arc<rustls::ServerConfig>,
    identities: Arc<Identities>,
    /// Asks clients for a certificate; they may have none under `client-auth: want`.
    pub identifies_clients: bool,
}

impl ServerTls {
    /// Returns the certificates in DER, each with the name that clients request; the default has the name `""`.
    pub fn certificates(&self) -> Vec<(String, CertificateDer<'static>)> {
        self.identities.certificates()
    }

    /// Reads the files of certificates and keys again, without the rest of the configuration. New connections get the
    /// certificates that they have now. Requests and open connections are not affected.
    ///
    /// # Errors
    /// Returns the problems of the files. The certificates stay as they are.
    pub fn read_certificates_again(&self) -> Result<(), String> {
        self.identities.read_again()
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls") // keys must not be logged
    }
}

pub(super) const NAMES: Names = Names {
    certificate: "certificate",
    key: "certificate-private-key",
    key_store: "key-store",
    trusted: "trust-certificate",
    trust_store: "trust-store",
};

/// Checks `server.ssl` or `management.server.ssl`, beside `server.acme`. Returns `None` for clear text, or after an
/// error, and `forward-client-cert`.
pub(crate) fn check(
    ssl: Option<&Node>,
    acme: Option<&Spanned<Acme>>,
    http2: bool,
    diagnostics: &mut Diagnostics,
) -> (Option<ServerTls>, ForwardClientCert) {
    let mut mode = ForwardClientCert::default();
    let tls = check_section(ssl, acme, http2, &mut mode, diagnostics);
    (tls, mode)
}

/// Checks the section, and sets `mode` to its `forward-client-cert`, which needs no TLS.
fn check_section(
    ssl: Option<&Node>,
    acme: Option<&Spanned<Acme>>,
    http2: bool,
    mode: &mut ForwardClientCert,
    diagnostics: &mut Diagnostics,
) -> Option<ServerTls> {
    let span = ssl.map(|node| node.span.key()).or(acme.map(|acme| acme.span.key()))?;
    let (mut raw, unknown) = ssl.map(|node| de::read::<RawServerSsl>(node, diagnostics)).unwrap_or_default();
    *mode = raw.forward_client_cert.unwrap_or_default();
    if !raw.enabled.get() {
        if let Some(acme) = acme {
            diagnostics
                .mistake(acme.span.key(), "`server.acme` has no effect: `server.ssl.enabled` is false")
                .help("remove one of the two");
        }
        return None;
    }
    unknown.iter().for_each(|unknown| report(unknown, diagnostics));
    let bundles = raw.bundles.take();
    let bundles = bundles.as_deref();
    let client_auth = raw.client_auth.filter(|auth| auth.value != RawClientAuth::None);
    if let (Some(auth), Some(acme)) = (client_auth, acme)
        && auth.value == RawClientAuth::Need
        && !acme.uses_http
    {
        diagnostics
            .error(auth.span, "the ACME server has no client certificate, and verifies names in handshakes")
            .help("add `server.http`, over which it verifies them, or write `client-auth: want`");
    }
    let enabled_protocols = raw.enabled_protocols.clone();
    raw.report_unused(client_auth.is_some(), diagnostics);
    let (named, listed) = (raw.server_name_bundles.take(), raw.certificates.take());
    let (files, protocols) = match raw.bundle(bundles, diagnostics) {
        Ok(Bundle { files, protocols }) => (Ok(files), protocols),
        Err(reported) => (Err(reported), None),
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = files
        .as_ref()
        .map_err(|reported| *reported)
        .and_then(|files| verifier(client_auth, files, &provider, diagnostics));
    let versions = versions(enabled_protocols.or(protocols), diagnostics);
    let built = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).map_err(|error| {
        diagnostics.error(span, format!("invalid settings of TLS: {error}"));
    });
    let place = (bundles, span);
    let (named, listed) = (named.unwrap_or_default(), listed.unwrap_or_default());
    let sources = Sources::new(files, (named, listed), acme.map(|acme| acme.value.clone()), place, diagnostics).ok()?;
    let identities = Arc::new(Identities::new(sources, diagnostics).ok()?);
    let mut config = built
        .ok()?
        .with_client_cert_verifier(verifier.ok()?)
        .with_cert_resolver(Arc::clone(&identities) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = if http2 { vec![b"h2".into(), b"http/1.1".into()] } else { vec![b"http/1.1".into()] };
    if acme.is_some() {
        config.alpn_protocols.push(ACME_TLS.to_vec());
    }
    // Tickets keep the session with the client, so the gateway holds no state for it.
    if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
        config.ticketer = ticketer;
    }
    Some(ServerTls { config: Arc::new(config), identities, identifies_clients: client_auth.is_some() })
}

impl RawServerSsl {
    /// Reports files and stores without effect.
    fn report_unused(&self, identifies_clients: bool, diagnostics: &mut Diagnostics) {
        let trust_store = [self.trust_store.spanned(), self.trust_store_password.as_ref()];
        let key_store = [&self.key_store, &self.key_alias].map(OptionalText::spanned);
        let passwords = [&self.key_store_password, &self.key_password].map(Option::as_ref);
        let pem = [&self.certificate, &self.certificate_private_key].map(OptionalText::spanned);
        let mut report = |texts: &[Option<&Spanned<String>>], message: &str, help: &str| {
            for text in texts.iter().flatten().filter(|text| !text.trim().is_empty()) {
                diagnostics.mistake(text.span.key(), message).help(help);
            }
        };
        let has_bundle = self.bundle.get().is_some();
        if has_bundle {
            let all = [pem, key_store, passwords, trust_store].concat();
            report(&all, "this has no effect beside `bundle`", "remove it");
        }
        if !identifies_clients {
            let trust_store = if has_bundle { &[][..] } else { &trust_store };
            let trust = [&[self.trust_certificate.spanned()][..], trust_store].concat();
            report(&trust, "this has no effect: clients need no certificate", "add `client-auth: need`");
        }
    }

    /// Returns the files of the bundle, or those of the keys here.
    fn bundle(self, bundles: Option<&Node>, diagnostics: &mut Diagnostics) -> Result<Bundle, Reported> {
        let trust_store = Store { location: self.trust_store, password: self.trust_store_password, ..Store::default() };
        if let Some(name) = self.bundle.spanned() {
            let Bundle { files, protocols } = bundle::find(name, bundles, Side::Server, diagnostics)?;
            let files = match self.trust_certificate.get() {
                None => files,
                Some(_) => Files { trusted: self.trust_certificate, trust_store: Store::default(), ..files },
            };
            return Ok(Bundle { files, protocols });
        }
        let key_store = Store {
            location: self.key_store,
            password: self.key_store_password,
            key_password: self.key_password,
            alias: self.key_alias,
        };
        let files = Files {
            certificate: self.certificate,
            key: self.certificate_private_key,
            key_store,
            trusted: self.trust_certificate,
            trust_store,
            names: NAMES,
            ..Files::default()
        };
        Ok(Bundle { files, protocols: None })
    }
}

/// Reports a key without effect on TLS, or an unknown one.
fn report(unknown: &UnknownKey, diagnostics: &mut Diagnostics) {
    let at = unknown.span.key();
    match canonical(unknown.path.last().map_or("", String::as_str)).as_str() {
        "ciphers" => bundle::report_ciphers(at, diagnostics),
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
