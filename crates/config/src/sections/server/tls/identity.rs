//! Certificates of the gateway with their keys.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem as pem_error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::pem;
use crate::sections::server::tls::Locations;
use crate::yaml::Span;

/// Reads a certificate with its key. `explained`: an error about them is already reported.
pub(super) fn read(
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
pub(super) fn certificates(
    location: &Spanned<String>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<CertificateDer<'static>>> {
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
