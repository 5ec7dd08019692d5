//! Certificates of the gateway with their keys.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem as pem_error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::pem;
use crate::sections::server::tls::{KeyPair, Trusted};
use crate::yaml::Span;

/// Reads a certificate with its key.
pub(super) fn read(
    key_pair: &KeyPair,
    at: Span,
    provider: &CryptoProvider,
    diagnostics: &mut Diagnostics,
) -> Option<Arc<CertifiedKey>> {
    let (certificate, key) = match key_pair {
        KeyPair::Store(store) => {
            let found = store.identity(diagnostics)?;
            let key = PrivatePkcs8KeyDer::from(found.key).into();
            let chain = found.chain.into_iter().map(CertificateDer::from).collect();
            return certified(Some(chain), Some(key), (store.span(), store.span()), provider, diagnostics);
        }
        KeyPair::Pem { certificate: Some(certificate), key: Some(key) } => (certificate, key),
        KeyPair::Pem { certificate: Some(only), key: None } | KeyPair::Pem { certificate: None, key: Some(only) } => {
            diagnostics.error(only.span.key(), "a certificate and its key are required together").help("give both");
            return None;
        }
        KeyPair::Pem { certificate: None, key: None } => {
            diagnostics.error(at, "TLS without a certificate").help(
                "set `certificate` and `certificate-private-key` to files in PEM, or `key-store` to a store in PKCS#12; \
                 `enabled: false` disables TLS",
            );
            return None;
        }
    };
    let (chain, private) = (pem_certificates(certificate, diagnostics), private_key(key, diagnostics));
    certified(chain, private, (certificate.span, key.span), provider, diagnostics)
}

/// Checks that the key belongs to the certificate. The places are those of the certificate and of the key.
fn certified(
    chain: Option<Vec<CertificateDer<'static>>>,
    private: Option<PrivateKeyDer<'static>>,
    at: (Span, Span),
    provider: &CryptoProvider,
    diagnostics: &mut Diagnostics,
) -> Option<Arc<CertifiedKey>> {
    match CertifiedKey::from_der(chain?, private?, provider) {
        Ok(identity) => Some(Arc::new(identity)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            diagnostics
                .error(at.1, "the key does not belong to the certificate")
                .help("`openssl x509 -pubkey -noout -in CERT` and `openssl pkey -pubout -in KEY` must print the same");
            None
        }
        Err(error) => {
            diagnostics
                .error(at.0, format!("invalid certificate or key: {error}"))
                .help("supported: RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, and Ed25519");
            None
        }
    }
}

/// Returns the trusted certificates, at least one.
pub(super) fn certificates(trusted: &Trusted, diagnostics: &mut Diagnostics) -> Option<Vec<CertificateDer<'static>>> {
    match trusted {
        Trusted::Pem(location) => pem_certificates(location, diagnostics),
        Trusted::Store(store) => {
            store.certificates(diagnostics).map(|found| found.into_iter().map(CertificateDer::from).collect())
        }
    }
}

/// Returns the certificates at `location`, at least one.
fn pem_certificates(location: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Vec<CertificateDer<'static>>> {
    let path = pem::located(&location.value, location.span, "CERTIFICATE", diagnostics)?;
    let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|error| invalid(&path, &error, location.span, diagnostics)).ok().filter(|found| !found.is_empty())
}

/// Returns the key at `location`.
fn private_key(location: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<PrivateKeyDer<'static>> {
    let path = pem::located(&location.value, location.span, "PRIVATE KEY", diagnostics)?;
    PrivateKeyDer::from_pem_file(&path).map_err(|error| invalid(&path, &error, location.span, diagnostics)).ok()
}

fn invalid(path: &Path, error: &pem_error::Error, at: Span, diagnostics: &mut Diagnostics) {
    diagnostics
        .error(at, format!("{} is not valid PEM: {error}", path.display()))
        .help("check that the file is complete and unchanged");
}
