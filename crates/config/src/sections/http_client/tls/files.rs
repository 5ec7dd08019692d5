//! Certificates and keys in files.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::diagnostics::Diagnostics;
use crate::sections::http_client::tls::Identity;
use crate::sections::ssl_bundle::{KeyPair, Trusted};
use crate::yaml::Span;

/// Reads CA certificates.
pub(super) fn authorities(trusted: &Trusted, at: Span, diagnostics: &mut Diagnostics) -> Option<Vec<Vec<u8>>> {
    let (all, path) = match trusted {
        Trusted::Pem(path) => (certificates(path, at, diagnostics)?, path),
        Trusted::Store(store) => (store.certificates(diagnostics)?, &store.path),
    };
    for certificate in &all {
        if let Err(error) = RootCertStore::empty().add(CertificateDer::from(certificate.as_slice())) {
            unusable("a certificate", path, &error.to_string(), at, diagnostics);
            return None;
        }
    }
    Some(all)
}

/// Reads a certificate with its chain and key, and checks that they fit.
pub(super) fn identity(pair: &KeyPair, at: Span, diagnostics: &mut Diagnostics) -> Option<Identity> {
    let (chain, key_pem, cert, key) = match pair {
        KeyPair::Pem(cert, key) => {
            let chain = certificates(cert, at, diagnostics)?;
            let pem = std::fs::read(key);
            let pem = pem.map_err(|error| unusable("the key", key, &error.to_string(), at, diagnostics)).ok()?;
            (chain, pem, cert, key)
        }
        KeyPair::Store(store) => {
            let found = store.identity(diagnostics)?;
            let key_pem = found.key_pem().into_bytes();
            (found.chain, key_pem, &store.path, &store.path)
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
