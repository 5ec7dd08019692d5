//! `server.ssl`: TLS with clients, by files or by bundles in PEM, which are read and checked here.

mod bundle;
mod names;

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self as pem_error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use self::names::ByName;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::{self, Unknown, canonical};
use crate::diagnostics::Diagnostics;
use crate::sections::pem;
use crate::sections::server::model::ServerTls;
use crate::sections::tls::{RawClientAuth, RawServerSsl};
use crate::yaml::{Node, Span};

/// Nodes with the parts of a bundle, or of the plain keys.
#[derive(Debug, Default)]
struct Locations {
    certificate: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
    trusted: Option<Spanned<String>>,
    protocols: Option<Vec<Spanned<String>>>,
}

/// Checks `server.ssl`. Returns `None` for clear text, or after an error.
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
        .and_then(|locations| identity(locations, node.span.key(), is_explained, &provider, diagnostics));
    let by_name = names::read(raw.server_name_bundles.as_deref(), bundles, &provider, diagnostics);
    let locations = locations.unwrap_or_default();
    let trusted = raw.trust_certificate.or(locations.trusted);
    let verifier = clients(raw.client_auth.as_ref(), trusted.as_ref(), &provider, diagnostics);
    let versions = versions(raw.enabled_protocols.or(locations.protocols), diagnostics);
    let built = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).map_err(|error| {
        diagnostics.error(node.span.key(), format!("invalid `server.ssl`: {error}"));
    });
    let mut config = built
        .ok()?
        .with_client_cert_verifier(verifier?)
        .with_cert_resolver(Arc::new(ByName { default: own?, by_name: by_name? }));
    config.alpn_protocols = if http2 { vec![b"h2".into(), b"http/1.1".into()] } else { vec![b"http/1.1".into()] };
    // Tickets keep the session with the client, so the gateway holds no state for it.
    if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
        config.ticketer = ticketer;
    }
    Some(ServerTls(Arc::new(config)))
}

/// Reports a key that is not read. Returns false if TLS cannot be used because of it.
fn report(unknown: &Unknown, diagnostics: &mut Diagnostics) -> bool {
    const STORES: [&str; 10] = [
        "keystore",
        "keystorepassword",
        "keystoretype",
        "keystoreprovider",
        "keypassword",
        "keyalias",
        "truststore",
        "truststorepassword",
        "truststoretype",
        "truststoreprovider",
    ];
    let name = unknown.path.last().map_or("", String::as_str);
    let at = unknown.span.key();
    match canonical(name).as_str() {
        "keystore" => {
            diagnostics.error(at, "`key-store` is a Java key store, which Tollgate cannot read").help(
                "`openssl pkcs12 -in STORE.p12 -nodes -out FILE.pem` writes it as PEM (a JKS first with `keytool \
                 -importkeystore -deststoretype pkcs12`): name that as `certificate` and `certificate-private-key`",
            );
            false
        }
        "truststore" => {
            diagnostics.error(at, "`trust-store` is a Java key store, which Tollgate cannot read").help(
                "`openssl pkcs12 -in STORE.p12 -nokeys -out FILE.pem` writes it as PEM: name that as `trust-certificate`",
            );
            false
        }
        other if STORES.contains(&other) => true, // reported once, at the store
        "ciphers" => {
            diagnostics
                .info(at, "`ciphers` has no effect: only suites with forward secrecy and AEAD are offered")
                .ineffective()
                .help("`enabled-protocols: [TLSv1.3]` narrows them further");
            true
        }
        "protocol" => {
            diagnostics
                .info(at, "`protocol` has no effect: `enabled-protocols` selects the versions")
                .ineffective()
                .help("remove it");
            true
        }
        "certificateprivatekeypassword" | "trustcertificateprivatekey" => {
            diagnostics
                .mistake(at, format!("`{name}` has no effect"))
                .ineffective()
                .help("private keys must not be encrypted, and a CA's key is not needed");
            true
        }
        _ => {
            de::report_unknown(unknown, diagnostics);
            true
        }
    }
}

/// Reads a certificate with its key. `explained`: an error about them is already reported.
fn identity(
    locations: &Locations,
    at: Span,
    explained: bool,
    provider: &CryptoProvider,
    diagnostics: &mut Diagnostics,
) -> Option<Arc<CertifiedKey>> {
    let (certificate, key) = match (&locations.certificate, &locations.key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(only), None) | (None, Some(only)) => {
            diagnostics.error(only.span.key(), "a certificate and its key are required together").help("give both");
            return None;
        }
        (None, None) => {
            if !explained {
                diagnostics.error(at, "TLS without a certificate").help(
                    "set `certificate` and `certificate-private-key` to files in PEM; `enabled: false` disables TLS",
                );
            }
            return None;
        }
    };
    let (chain, private) = (certificates(certificate, diagnostics), private_key(key, diagnostics));
    match CertifiedKey::from_der(chain?, private?, provider) {
        Ok(identity) => Some(Arc::new(identity)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            diagnostics
                .error(key.span, "the key does not belong to the certificate")
                .help("`openssl x509 -pubkey -noout -in CERT` and `openssl pkey -pubout -in KEY` must print the same");
            None
        }
        Err(error) => {
            diagnostics
                .error(certificate.span, format!("invalid certificate or key: {error}"))
                .help("supported: RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, and Ed25519");
            None
        }
    }
}

/// The certificates at `location`, at least one.
fn certificates(location: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Vec<CertificateDer<'static>>> {
    let path = pem::located(&location.value, location.span, "CERTIFICATE", diagnostics)?;
    let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|error| invalid(&path, &error, location.span, diagnostics)).ok().filter(|found| !found.is_empty())
}

/// The key at `location`.
fn private_key(location: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<PrivateKeyDer<'static>> {
    let path = pem::located(&location.value, location.span, "PRIVATE KEY", diagnostics)?;
    PrivateKeyDer::from_pem_file(&path).map_err(|error| invalid(&path, &error, location.span, diagnostics)).ok()
}

fn invalid(path: &Path, error: &pem_error::Error, at: Span, diagnostics: &mut Diagnostics) {
    diagnostics
        .error(at, format!("{} is not valid PEM: {error}", path.display()))
        .help("check that the file is complete and unchanged");
}

/// Verifier of client certificates.
fn clients(
    auth: Option<&Spanned<RawClientAuth>>,
    trusted: Option<&Spanned<String>>,
    provider: &Arc<CryptoProvider>,
    diagnostics: &mut Diagnostics,
) -> Option<Arc<dyn ClientCertVerifier>> {
    let Some(Spanned { value: RawClientAuth::Want | RawClientAuth::Need, span }) = auth.copied() else {
        if let Some(trusted) = trusted {
            diagnostics
                .mistake(
                    trusted.span.key(),
                    "`trust-certificate` has no effect: clients are not asked for a certificate",
                )
                .help("add `client-auth: need`");
        }
        return Some(WebPkiClientVerifier::no_client_auth());
    };
    let Some(trusted) = trusted else {
        diagnostics
            .error(span, "`client-auth` needs `trust-certificate` to verify client certificates")
            .help("set `trust-certificate` to the CA that signs your clients' certificates");
        return None;
    };
    let roots = roots(&certificates(trusted, diagnostics)?, trusted.span, diagnostics)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let wanted = auth.is_some_and(|auth| auth.value == RawClientAuth::Want);
    let builder = if wanted { builder.allow_unauthenticated() } else { builder };
    builder
        .build()
        .map_err(|error| {
            diagnostics.error(trusted.span, format!("invalid trusted certificates: {error}"));
        })
        .ok()
}

fn roots(certificates: &[CertificateDer<'static>], at: Span, diagnostics: &mut Diagnostics) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        if let Err(error) = roots.add(certificate.clone()) {
            diagnostics.error(at, format!("invalid trusted certificate: {error}"));
            return None;
        }
    }
    Some(roots)
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
