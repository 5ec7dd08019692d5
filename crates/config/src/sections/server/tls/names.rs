//! Certificates by the name that a client requests (SNI, RFC 6066 §3).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::diagnostics::Diagnostics;
use crate::sections::server::tls::RawServerName;
use crate::sections::server::tls::{bundle, identity};
use crate::yaml::{Node, Span};

/// Certificates by requested name, and the default.
#[derive(Debug)]
pub(super) struct ByName {
    pub(super) default: Arc<CertifiedKey>,
    /// Names in lower case; `*` in `*.example.org` matches one label.
    pub(super) by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.named(&name.to_ascii_lowercase()));
        Some(Arc::clone(named.unwrap_or(&self.default)))
    }
}

impl ByName {
    /// Returns the certificates in DER, each with its name; the default has the name `""`.
    pub(super) fn certificates(&self) -> Vec<(String, CertificateDer<'static>)> {
        let named = self.by_name.iter().map(|(name, key)| (name.as_str(), key));
        let all = [("", &self.default)].into_iter().chain(named);
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

/// Checks `server-name-bundles`. Reports errors; `None` if one cannot be used.
pub(super) fn read(
    listed: Option<&[RawServerName]>,
    bundles: Option<&Node>,
    provider: &CryptoProvider,
    diagnostics: &mut Diagnostics,
) -> Option<HashMap<String, Arc<CertifiedKey>>> {
    let mut by_name = HashMap::new();
    for entry in listed.unwrap_or_default() {
        let (Some(name), Some(bundle)) = (&entry.server_name, &entry.bundle) else {
            let at = entry.server_name.as_ref().or(entry.bundle.as_ref()).map_or(Span::ROOT, |given| given.span);
            diagnostics.error(at, "`server-name` and `bundle` are required together").help("give both");
            return None;
        };
        let locations = bundle::find(bundle, bundles, diagnostics)?;
        let identity = identity::read(locations.key_pair.as_ref()?, bundle.span, provider, diagnostics)?;
        by_name.insert(name.value.trim().to_ascii_lowercase(), identity);
    }
    Some(by_name)
}
