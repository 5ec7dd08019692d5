//! `client-auth`: certificates of clients.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::sections::tls::files::Files;

/// Use of client certificates.
#[word]
pub(crate) enum RawClientAuth {
    /// Not requested.
    None,
    /// Requested; a client may have none, but a certificate must be valid.
    Want,
    /// Required.
    Need,
}

/// Fields that tell upstreams of a client's certificate.
#[word(Default)]
pub enum ForwardClientCert {
    /// None. YAML 1.1 reads `off` as false.
    #[default]
    #[serde(alias = "false")]
    Off,
    /// `Client-Cert` and `Client-Cert-Chain` (RFC 9440).
    ClientCert,
    /// Envoy's `X-Forwarded-Client-Cert`.
    Xfcc,
}

/// Returns the verifier of client certificates; `auth` is `want` or `need`, if they are requested. Reports errors.
pub(super) fn verifier(
    auth: Option<Spanned<RawClientAuth>>,
    files: &Files,
    provider: &Arc<CryptoProvider>,
    diagnostics: &mut Diagnostics,
) -> Result<Arc<dyn ClientCertVerifier>, Reported> {
    let Some(auth) = auth else {
        let has_trust = files.trusted.get().or(files.trust_store.location.get()).is_some();
        // No mistake: other sections may use the bundle.
        if let Some(bundle) = files.bundle.spanned().filter(|_| has_trust) {
            let name = &bundle.value;
            diagnostics
                .note(bundle.span, format!("trusted certificates of the SSL bundle `{name}` have no effect here: clients need no certificate"))
                .help("add `client-auth: need`");
        }
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let Some(trusted) = files.trusted(diagnostics)? else {
        return Err(diagnostics
            .error(auth.span, "`client-auth` needs `trust-certificate` or `trust-store` to verify client certificates")
            .reported_with("set one of them to the CA that signs your clients' certificates"));
    };
    let mut roots = RootCertStore::empty();
    // All can be parsed: `read` has checked each.
    roots.add_parsable_certificates(trusted.read(diagnostics)?);
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = if auth.value == RawClientAuth::Want { builder.allow_unauthenticated() } else { builder };
    builder
        .build()
        .map_err(|error| diagnostics.error(trusted.span(), format!("invalid trusted certificates: {error}")).reported())
}
