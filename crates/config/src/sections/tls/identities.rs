//! Certificates that the gateway presents, by the name that a client requests (SNI, RFC 6066 §3), replaced while it serves.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tollgate_bounded_file::unrecorded;
use webpki::EndEntityCert;

use crate::de::{OptionalText, Spanned};
use crate::diagnostics::{Diagnostics, Reported, SourceText};
use crate::sections::tls::acme::{self, ACME_TLS, Acme};
use crate::sections::tls::bundle::{self, Side};
use crate::sections::tls::files::Files;
use crate::sections::tls::server::NAMES;
use crate::yaml::{Node, Span};

/// Bundle for a name that clients request (SNI).
#[section]
pub(crate) struct RawServerName {
    server_name: OptionalText,
    bundle: OptionalText,
}

/// Certificate for clients that request one of its names.
#[section]
pub(crate) struct RawCertificate {
    /// File in PEM with a certificate and its chain.
    certificate: OptionalText,
    /// File in PEM with the key of `certificate`, not encrypted.
    certificate_private_key: OptionalText,
}

/// Files of the gateway's certificates.
pub(super) struct Sources {
    /// Certificate for clients that request no name of the others, unless it has errors. If it has no files, the first of
    /// `listed`.
    default: Result<Files, Reported>,
    /// Certificates for a name of the configuration.
    named: Vec<(Spanned<String>, Files)>,
    /// Certificates for their own names.
    listed: Vec<Files>,
    /// Certificates from an ACME server, for those of its names that are in no other certificate.
    acme: Option<Acme>,
    /// Place of the section.
    span: Span,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sources") // it has passwords
    }
}

/// Certificates by requested name, and the default.
#[derive(Debug)]
pub(super) struct ByName {
    /// `None` while an ACME server has issued no certificate: other clients get none.
    default: Option<Arc<CertifiedKey>>,
    /// Names in lower case; `*` in `*.example.org` matches one label.
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

/// Certificates that the gateway presents, and their files.
#[derive(Debug)]
pub(super) struct Identities {
    sources: Sources,
    current: ArcSwap<ByName>,
}

// === impl Sources ===

impl Sources {
    /// Returns the files of `default`, of `server-name-bundles` and of `certificates`, in the section at `span`. Reports
    /// errors.
    pub(super) fn new(
        default: Result<Files, Reported>,
        (named, listed): (Vec<RawServerName>, Vec<RawCertificate>),
        acme: Option<Acme>,
        (bundles, span): (Option<&Node>, Span),
        diagnostics: &mut Diagnostics,
    ) -> Result<Self, Reported> {
        let mut with_files = Vec::new();
        for entry in named {
            let (Some(name), Some(bundle)) = (entry.server_name.spanned(), entry.bundle.spanned()) else {
                return Err(diagnostics
                    .error(
                        entry.server_name.span_or(entry.bundle.span_or(span)),
                        "`server-name` and `bundle` are required together",
                    )
                    .reported_with("give both"));
            };
            with_files.push((name.clone(), bundle::find(bundle, bundles, Side::Server, diagnostics)?.files));
        }
        let listed = listed.into_iter().map(|entry| Files {
            certificate: entry.certificate,
            key: entry.certificate_private_key,
            names: NAMES,
            ..Files::default()
        });
        Ok(Self { default, named: with_files, listed: listed.collect(), acme, span })
    }

    /// Reads the files. Reports errors.
    pub(super) fn read(&self, diagnostics: &mut Diagnostics) -> Result<ByName, Reported> {
        let mut by_name = self.read_named(diagnostics)?;
        let files = self.default.as_ref().map_err(|reported| *reported)?;
        let mut default = match files.key_pair(diagnostics)? {
            None if !self.listed.is_empty() || self.acme.is_some() => None,
            _ => Some(certified(files, self.span, diagnostics)?),
        };
        for files in &self.listed {
            let at = files.certificate.span_or(self.span);
            let certificate = certified(files, self.span, diagnostics)?;
            let names = dns_names(&certificate);
            if names.is_empty() && default.is_some() {
                return Err(diagnostics
                    .error(at, "no client gets this certificate: it has no DNS name")
                    .reported_with("`openssl x509 -in FILE -noout -ext subjectAltName` shows its names"));
            }
            for name in names {
                if by_name.contains_key(&name) {
                    return Err(diagnostics
                        .error(at, format!("another certificate has the name `{name}`, too"))
                        .reported_with("remove one of the two"));
                }
                by_name.insert(name, Arc::clone(&certificate));
            }
            default.get_or_insert(certificate);
        }
        for (domain, certificate) in self.acme.iter().flat_map(issued) {
            default.get_or_insert_with(|| Arc::clone(&certificate));
            by_name.entry(domain).or_insert(certificate);
        }
        Ok(ByName { default, by_name })
    }

    fn read_named(&self, diagnostics: &mut Diagnostics) -> Result<HashMap<String, Arc<CertifiedKey>>, Reported> {
        let mut by_name = HashMap::new();
        for (name, files) in &self.named {
            by_name.insert(name.to_ascii_lowercase(), certified(files, files.bundle.span_or(self.span), diagnostics)?);
        }
        Ok(by_name)
    }
}

// === impl ByName ===

impl ByName {
    /// Returns the certificate for a client.
    pub(super) fn resolve(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificate = hello.server_name().and_then(|name| self.named(&name.to_ascii_lowercase()));
        certificate.or(self.default.as_ref()).cloned()
    }

    /// Returns the certificates in DER, each with its name; the default has the name `""`.
    pub(super) fn certificates(&self) -> Vec<(String, CertificateDer<'static>)> {
        let by_name = self.by_name.iter().map(|(name, key)| (name.as_str(), key));
        let all = self.default.iter().map(|default| ("", default)).chain(by_name);
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

// === impl Identities ===

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
            return acme::certificate(&hello.server_name()?.to_ascii_lowercase());
        }
        self.current.load().resolve(&hello)
    }
}

/// Returns the usable certificates that the ACME server has issued, each with its name. One that cannot be used is like one that
/// is absent: it is ordered again. The task that orders them watches their files.
fn issued(acme: &Acme) -> Vec<(String, Arc<CertifiedKey>)> {
    let read = |domain: &Spanned<String>| {
        let path = acme.file(domain);
        let path = path.to_str().filter(|_| path.exists())?.to_owned();
        let file = OptionalText::from(Spanned { value: path, span: Span::ROOT });
        let files = Files { certificate: file.clone(), key: file, names: NAMES, ..Files::default() };
        let certificate = certified(&files, Span::ROOT, &mut Diagnostics::default()).ok()?;
        dns_names(&certificate).contains(domain).then(|| (domain.value.clone(), certificate))
    };
    unrecorded(|| acme.domains.iter().filter_map(read).collect())
}

/// Returns the DNS names of a certificate, in lower case.
fn dns_names(certificate: &CertifiedKey) -> Vec<String> {
    let leaf = certificate.cert.first().and_then(|leaf| EndEntityCert::try_from(leaf).ok());
    let mut names: Vec<_> = leaf.iter().flat_map(|leaf| leaf.valid_dns_names()).map(str::to_ascii_lowercase).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Reads the certificate of the gateway with its key. Reports errors; one at `at` if the section names none.
fn certified(files: &Files, at: Span, diagnostics: &mut Diagnostics) -> Result<Arc<CertifiedKey>, Reported> {
    if let Some(pair) = files.key_pair(diagnostics)? {
        return Ok(Arc::new(pair.read(diagnostics)?.0));
    }
    if let Some(bundle) = files.bundle.spanned() {
        let text = format!("the SSL bundle `{}` has no certificate of the gateway", bundle.value);
        Err(diagnostics.error(bundle.span, text).reported_with("add its `keystore`"))
    } else {
        Err(diagnostics.error(at, "TLS without a certificate").reported_with(
            "set `certificate` and `certificate-private-key` to files in PEM, or `key-store` to a store in PKCS#12; \
             `enabled: false` disables TLS",
        ))
    }
}
