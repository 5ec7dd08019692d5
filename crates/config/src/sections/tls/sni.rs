//! Certificates by the name that a client requests (SNI, RFC 6066 §3).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::Deserialize;

use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::sections::tls::bundle::{self, Side};
use crate::sections::tls::files::{Files, non_blank};
use crate::yaml::{Node, Span};

/// Bundle for a name that clients request (SNI).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServerName {
    server_name: Option<Spanned<String>>,
    bundle: Option<Spanned<String>>,
}

/// Certificates by requested name, and the default.
#[derive(Debug)]
pub(super) struct ByName {
    pub(super) default: Arc<CertifiedKey>,
    /// Names in lower case; `*` in `*.example.org` matches one label.
    pub(super) by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificate = hello.server_name().and_then(|name| self.named(&name.to_ascii_lowercase()));
        Some(Arc::clone(certificate.unwrap_or(&self.default)))
    }
}

impl ByName {
    /// Returns the certificates in DER, each with its name; the default has the name `""`.
    pub(super) fn certificates(&self) -> Vec<(String, CertificateDer<'static>)> {
        let by_name = self.by_name.iter().map(|(name, key)| (name.as_str(), key));
        let all = [("", &self.default)].into_iter().chain(by_name);
        let mut all: Vec<_> =
            all.filter_map(|(name, key)| Some((name.to_owned(), key.cert.first()?.clone()))).collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    fn named(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(name).or_else(|| self.by_name.get(&format!("*.{}", name.split_once('.')?.1)))
    }
}

/// Checks `server-name-bundles`. Reports errors.
pub(super) fn read(
    entries: &[RawServerName],
    bundles: Option<&Node>,
    diagnostics: &mut Diagnostics,
) -> Result<HashMap<String, Arc<CertifiedKey>>, Reported> {
    let mut by_name = HashMap::new();
    for entry in entries {
        let (Some(name), Some(bundle)) = (&entry.server_name, non_blank(entry.bundle.as_ref())) else {
            let at = entry.server_name.as_ref().or(entry.bundle.as_ref()).map_or(Span::ROOT, |given| given.span);
            return Err(diagnostics
                .error(at, "`server-name` and `bundle` are required together")
                .reported_with("give both"));
        };
        let files = bundle::find(bundle, bundles, Side::Server, diagnostics)?.files;
        by_name.insert(name.value.trim().to_ascii_lowercase(), certified(&files, bundle.span, diagnostics)?);
    }
    Ok(by_name)
}

/// Reads the certificate of the gateway with its key. Reports errors; one at `at` if the section names none.
pub(super) fn certified(files: &Files, at: Span, diagnostics: &mut Diagnostics) -> Result<Arc<CertifiedKey>, Reported> {
    if let Some(pair) = files.key_pair(diagnostics)? {
        return Ok(Arc::new(pair.read(diagnostics)?.0));
    }
    if let Some(bundle) = &files.bundle {
        let text = format!("the SSL bundle `{}` has no certificate of the gateway", bundle.value.trim());
        Err(diagnostics.error(bundle.span, text).reported_with("add its `keystore`"))
    } else {
        Err(diagnostics.error(at, "TLS without a certificate").reported_with(
            "set `certificate` and `certificate-private-key` to files in PEM, or `key-store` to a store in PKCS#12; \
             `enabled: false` disables TLS",
        ))
    }
}
