//! TLS to upstreams: `tls` of the client or of a route, and Spring's `ssl`. Files are read here, so that errors
//! are found at start.

use std::path::Path;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;

use crate::de;
use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::de::units::positive;
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::model::{Identity, Tls, TlsVersion, Trust};
use crate::sections::http_client::no_effect;
use crate::sections::http_client::raw::{RawClientSsl, RawClientTls, RawHttpClient};
use crate::sections::pem::{self, Bundle};
use crate::yaml::{Node, Span};

/// Checks the client's `tls` or `ssl`. Returns the settings and the handshake timeout; `None` if absent or after an
/// error.
pub(super) fn said(
    raw: &RawHttpClient,
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> (Option<Tls>, Option<Duration>) {
    let node = |whole: Option<_>| whole.and_then(|node| nodes.get(node));
    match (node(raw.tls), node(raw.ssl)) {
        (Some(_), Some(ssl)) => {
            diagnostics.error(ssl.span.key(), "`ssl` and `tls` are both given").help("remove one of the two");
            (None, None)
        }
        (Some(tls), None) => (own(tls, diagnostics), None),
        (None, Some(ssl)) => springs(ssl, nodes, diagnostics),
        (None, None) => (None, None),
    }
}

/// Checks `tls` of the client or of a route.
pub(crate) fn own(node: &Node, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let (raw, unknown) = de::read::<RawClientTls>(node, diagnostics);
    for unknown in &unknown {
        let name = unknown.path.last().map_or("", String::as_str);
        // A typo must not weaken TLS: an error in Spring files, too.
        diagnostics
            .error(unknown.span.key(), format!("unknown key `{name}`"))
            .help(crate::diagnostics::suggest(name, unknown.fields));
    }
    // `${UPSTREAM_CA:}` is empty in an environment without it.
    let given = |text: Option<Spanned<String>>| text.filter(|text| !text.value.trim().is_empty());
    let (ca, cert, key) = (given(raw.ca), given(raw.cert), given(raw.key));
    let trust = match (&ca, raw.insecure.filter(|on| on.value)) {
        (Some(_), Some(on)) => {
            diagnostics
                .error(on.span.key(), "`insecure: true` accepts all certificates, which makes `ca` ineffective")
                .help("remove one of the two");
            return None;
        }
        (None, Some(on)) => {
            unchecked(on.span, "`ca`", diagnostics);
            Trust::AnyCertificate
        }
        (Some(file), None) => {
            let path = pem::file(file, "CERTIFICATE", diagnostics)?;
            Trust::Authorities(authorities(&path, file.span, diagnostics)?)
        }
        (None, None) => Trust::System,
    };
    let identity = match (&cert, &key) {
        (Some(cert), Some(key)) => {
            let files = (pem::file(cert, "CERTIFICATE", diagnostics), pem::file(key, "PRIVATE KEY", diagnostics));
            let (Some(cert), Some(file)) = files else { return None };
            Some(identity(&cert, &file, key.span, diagnostics)?)
        }
        (None, None) => None,
        (Some(at), None) | (None, Some(at)) => {
            diagnostics.error(at.span.key(), "`cert` and `key` are required together").help("give both, or neither");
            return None;
        }
    };
    let server_name = given(raw.server_name);
    if let Some(name) = server_name.as_ref().filter(|name| ServerName::try_from(name.value.trim()).is_err()) {
        diagnostics
            .error(name.span, format!("`{}` is neither a host name nor an address", name.value))
            .help("a name like `orders.internal`, without port and scheme");
    }
    let min_version = match raw.min_version.as_ref().map(|version| version.value.trim().trim_start_matches("TLSv")) {
        None | Some("1.2") => TlsVersion::Tls12,
        Some("1.3") => TlsVersion::Tls13,
        Some(other) => {
            let at = raw.min_version.as_ref().map_or(node.span, |version| version.span);
            diagnostics
                .error(at, format!("`min-version` must be 1.2 or 1.3, found `{other}`"))
                .help("TLS before 1.2 is insecure and not supported");
            TlsVersion::Tls12
        }
    };
    Some(Tls { trust, identity, server_name: server_name.map(|name| name.value.trim().to_owned()), min_version })
}

fn springs(node: &Node, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> (Option<Tls>, Option<Duration>) {
    let (raw, unknown) = de::read::<RawClientSsl>(node, diagnostics);
    for unknown in &unknown {
        let name = unknown.path.join(".");
        diagnostics
            .error(unknown.span.key(), format!("`ssl.{name}` is not supported"))
            .help("remove it: ignoring it could weaken TLS");
    }
    for (time, name) in [
        (raw.close_notify_flush_timeout, "close-notify-flush-timeout"),
        (raw.close_notify_read_timeout, "close-notify-read-timeout"),
    ] {
        if let Some(time) = time {
            no_effect(time.span, &format!("ssl.{name}"), "connections are closed without waiting", diagnostics);
        }
    }
    let patience = raw.handshake_timeout.map(|time| positive(Some(time), 10, diagnostics));
    (kept(&raw, nodes, diagnostics), patience)
}

/// Applies Spring's precedence: a bundle replaces all other settings, and certificates win over the insecure trust manager.
fn kept(raw: &RawClientSsl, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<Tls> {
    if let Some(store) = raw.key_store.as_ref().filter(|store| !store.value.trim().is_empty()) {
        key_store(store, raw.key_store_type.as_ref(), diagnostics);
        return None;
    }
    for (at, name) in [
        (raw.key_store_type.as_ref().map(|text| text.span), "key-store-type"),
        (raw.key_store_provider.as_ref().map(|text| text.span), "key-store-provider"),
        (raw.key_store_password.as_ref().map(|text| text.span), "key-store-password"),
        (raw.key_password.as_ref().map(|text| text.span), "key-password"),
    ] {
        if let Some(at) = at {
            diagnostics.mistake(at.key(), format!("`{name}` has no effect without `key-store`")).help("remove it");
        }
    }
    let insecure = raw.use_insecure_trust_manager.filter(|on| on.value);
    if let Some(name) = raw.ssl_bundle.as_ref().filter(|name| !name.value.trim().is_empty()) {
        let bundles = raw.bundles.and_then(|node| nodes.get(node));
        let bundle = pem::bundle(name, bundles, diagnostics)?;
        if insecure.is_some() || !raw.trusted_x509_certificates.is_empty() {
            diagnostics
                .mistake(name.span.key(), "the other settings of `ssl` have no effect beside `ssl-bundle`")
                .help("remove them");
        }
        return of_bundle(&bundle, name.span, diagnostics);
    }
    let mut trusted = Vec::new();
    for location in raw.trusted_x509_certificates.iter().filter(|location| !location.value.trim().is_empty()) {
        let path = pem::located(&location.value, location.span, "CERTIFICATE", diagnostics)?;
        trusted.extend(authorities(&path, location.span, diagnostics)?);
    }
    let trust = match (trusted.is_empty(), insecure) {
        (false, Some(on)) => {
            diagnostics
                .mistake(on.span.key(), "this has no effect beside `trusted-x509-certificates`")
                .help("remove one of the two");
            Trust::Authorities(trusted)
        }
        (false, None) => Trust::Authorities(trusted),
        (true, Some(on)) => {
            unchecked(on.span, "`trusted-x509-certificates`", diagnostics);
            Trust::AnyCertificate
        }
        (true, None) => Trust::System,
    };
    Some(Tls { trust, ..Tls::default() })
}

fn of_bundle(bundle: &Bundle, at: Span, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let trust = match &bundle.ca {
        Some(path) => Trust::Authorities(authorities(path, at, diagnostics)?),
        None => Trust::System,
    };
    let identity = match &bundle.identity {
        Some((cert, key)) => Some(identity(cert, key, at, diagnostics)?),
        None => None,
    };
    Some(Tls { trust, identity, ..Tls::default() })
}

fn unchecked(at: Span, instead: &str, diagnostics: &mut Diagnostics) {
    diagnostics
        .warn(at.key(), "upstreams' certificates are not verified: traffic can be read and changed on the way")
        .help(format!("use {instead} for the CA that signs them"));
}

fn key_store(store: &Spanned<String>, kind: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) {
    let path = store.value.trim().trim_start_matches("classpath:").trim_start_matches("file:");
    let is_pkcs12 = kind.is_some_and(|kind| kind.value.trim().eq_ignore_ascii_case("PKCS12"))
        || Path::new(path).extension().is_some_and(|end| end == "p12" || end == "pfx");
    let (first, from) = if is_pkcs12 {
        (String::new(), path.to_owned())
    } else {
        let command = format!(
            "`keytool -importkeystore -srckeystore {path} -destkeystore client.p12 -deststoretype PKCS12`, then "
        );
        (command, "client.p12".to_owned())
    };
    diagnostics.error(store.span, format!("`{path}` is a Java key store, which Tollgate cannot read")).help(format!(
        "{first}`openssl pkcs12 -in {from} -nodes -out client.pem` writes it as PEM: name that in \
         `httpclient.tls.cert` and `.key`, or in a bundle under `spring.ssl.bundle.pem` and `ssl-bundle`"
    ));
}

/// Reads the CA certificates of a file.
fn authorities(path: &Path, at: Span, diagnostics: &mut Diagnostics) -> Option<Vec<Vec<u8>>> {
    let all = certificates(path, at, diagnostics)?;
    for certificate in &all {
        if let Err(error) = RootCertStore::empty().add(CertificateDer::from(certificate.as_slice())) {
            unusable("a certificate", path, &error.to_string(), at, diagnostics);
            return None;
        }
    }
    Some(all)
}

/// Reads a certificate with its chain and key, and checks that they fit.
fn identity(cert: &Path, key: &Path, at: Span, diagnostics: &mut Diagnostics) -> Option<Identity> {
    let chain = certificates(cert, at, diagnostics)?;
    let key_pem = match std::fs::read(key) {
        Ok(pem) => pem,
        Err(error) => {
            unusable("the key", key, &error.to_string(), at, diagnostics);
            return None;
        }
    };
    let fits = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|error| error.to_string()).and_then(|private| {
        let shown = chain.iter().map(|certificate| CertificateDer::from(certificate.clone())).collect();
        CertifiedKey::from_der(shown, private, &rustls::crypto::aws_lc_rs::default_provider())
            .map_err(|error| format!("it does not fit {}: {error}", cert.display()))
    });
    match fits {
        Ok(_) => Some(Identity { chain, key: key_pem }),
        Err(reason) => {
            unusable("the key", key, &reason, at, diagnostics);
            None
        }
    }
}

fn certificates(path: &Path, at: Span, diagnostics: &mut Diagnostics) -> Option<Vec<Vec<u8>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) => Some(found.into_iter().map(|certificate| certificate.as_ref().to_vec()).collect()),
        Err(error) => {
            unusable("a certificate", path, &error.to_string(), at, diagnostics);
            None
        }
    }
}

fn unusable(what: &str, path: &Path, reason: &str, at: Span, diagnostics: &mut Diagnostics) {
    diagnostics
        .error(at, format!("{what} in {} cannot be used: {reason}", path.display()))
        .help("`openssl x509 -in FILE -noout -text` shows a certificate, `openssl pkey -in FILE -check` a key");
}
