//! Certificates that the gateway presents, replaced while it serves.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::diagnostics::{Diagnostics, Reported, SourceText};
use crate::sections::tls::challenges::{self, ACME_TLS};
use crate::sections::tls::sni::{ByName, Sources};

/// Certificates that the gateway presents, and their files.
#[derive(Debug)]
pub(super) struct Identities {
    sources: Sources,
    current: ArcSwap<ByName>,
}

impl Identities {
    /// Reads the files. Reports errors.
    pub(super) fn new(sources: Sources, diagnostics: &mut Diagnostics) -> Result<Self, Reported> {
        let current = ArcSwap::from_pointee(sources.read(diagnostics)?);
        Ok(Self { sources, current })
    }

    /// Reads the files again. On an error, the certificates stay as they are.
    pub(super) fn read_again(&self) -> Result<(), String> {
        let mut diagnostics = Diagnostics::default();
        match self.sources.read(&mut diagnostics) {
            Ok(read) => {
                self.current.store(Arc::new(read));
                Ok(())
            }
            Err(_) => {
                let report = diagnostics.finish(SourceText::default());
                let texts: Vec<_> = report.list().iter().map(|problem| problem.text().into_owned()).collect();
                Err(texts.join("; "))
            }
        }
    }

    /// Returns the certificates in DER, each with its name; the default has the name `""`.
    pub(super) fn certificates(&self) -> Vec<(String, CertificateDer<'static>)> {
        self.current.load().certificates()
    }
}

impl ResolvesServerCert for Identities {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A client that offers the protocol of challenges alone is the ACME server (RFC 8737 §3).
        let mut offered = hello.alpn().into_iter().flatten();
        if offered.next() == Some(ACME_TLS) && offered.next().is_none() {
            return challenges::certificate(&hello.server_name()?.to_ascii_lowercase());
        }
        self.current.load().resolve(&hello)
    }
}
