//! Verification of client certificates.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::server::tls::identity::certificates;
use crate::sections::server::tls::{RawClientAuth, Trusted};
use crate::yaml::Span;

/// Returns the verifier of client certificates.
pub(super) fn verifier(
    auth: Option<&Spanned<RawClientAuth>>,
    trusted: Option<&Trusted>,
    provider: &Arc<CryptoProvider>,
    diagnostics: &mut Diagnostics,
) -> Option<Arc<dyn ClientCertVerifier>> {
    let Some(Spanned { value: RawClientAuth::Want | RawClientAuth::Need, span }) = auth.copied() else {
        if let Some(trusted) = trusted {
            diagnostics
                .mistake(trusted.span().key(), "this has no effect: clients need no certificate")
                .help("add `client-auth: need`");
        }
        return Some(WebPkiClientVerifier::no_client_auth());
    };
    let Some(trusted) = trusted else {
        diagnostics
            .error(span, "`client-auth` needs `trust-certificate` or `trust-store` to verify client certificates")
            .help("set one of them to the CA that signs your clients' certificates");
        return None;
    };
    let roots = roots(&certificates(trusted, diagnostics)?, trusted.span(), diagnostics)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let wanted = auth.is_some_and(|auth| auth.value == RawClientAuth::Want);
    let builder = if wanted { builder.allow_unauthenticated() } else { builder };
    builder
        .build()
        .map_err(|error| {
            diagnostics.error(trusted.span(), format!("invalid trusted certificates: {error}"));
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
