//! `server.acme`: certificates from an ACME server (RFC 8555), and the answers to its challenges.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use http::Uri;
use rustls::pki_types::DnsName;
use rustls::sign::CertifiedKey;

use crate::de::{OptionalText, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
#[cfg(test)]
use crate::sections::StringOrList;
use crate::sections::add_server;

/// Directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Certificates from an ACME server. Using it agrees to the server's terms of service.
#[section(Clone, PartialEq, Eq)]
pub struct Acme {
    /// Names of the sites; each gets a certificate of its own. Required.
    #[cfg_attr(test, schemars(with = "Option<StringOrList>"))]
    pub domains: Vec<Spanned<String>>,
    /// Folder for the account and the certificates with their keys. It must outlive the process. Required.
    pub(crate) storage: OptionalText,
    /// Address to which the ACME server may write. Default: none.
    pub email: OptionalText,
    /// URL of the ACME server's directory. Default `https://acme-v02.api.letsencrypt.org/directory`, Let's Encrypt.
    directory: OptionalText,
    /// Answers challenges over `server.http` (HTTP-01), otherwise in handshakes of TLS (TLS-ALPN-01).
    #[serde(skip)]
    pub uses_http: bool,
}

impl Acme {
    /// Returns the folder for the account and the certificates.
    pub fn storage(&self) -> &Path {
        Path::new(self.storage.as_str())
    }

    /// Returns the URL of the server's directory.
    pub fn directory(&self) -> &str {
        self.directory.as_str()
    }

    /// Returns the path of the certificate of `domain`, which is followed by its chain and its key.
    pub fn file(&self, domain: &str) -> PathBuf {
        self.storage().join(format!("{domain}.pem"))
    }
}

/// Checks the section, beside `server.http` if `uses_http`. Its domains are then in lower case, each once. Reports errors.
pub(crate) fn check(
    section: Spanned<Acme>,
    uses_http: bool,
    diagnostics: &mut Diagnostics,
) -> Result<Spanned<Acme>, Reported> {
    let Spanned { value: mut acme, span } = section;
    let at = span.key();
    let mut domains: Vec<Spanned<String>> = Vec::new();
    for name in acme.domains {
        let domain = name.value.trim().trim_end_matches('.').to_ascii_lowercase();
        if domain.starts_with("*.") {
            return Err(diagnostics
                .error(name.span, "a wildcard needs a challenge over DNS, which is not supported")
                .reported_with("list each name, or give a certificate by `server.ssl.certificates`"));
        }
        let is_name = domain.contains('.') || domain == "localhost";
        if !is_name || DnsName::try_from(domain.as_str()).is_err() || domain.parse::<std::net::IpAddr>().is_ok() {
            return Err(diagnostics
                .error(name.span, format!("`{}` is no DNS name that an ACME server can verify", name.value))
                .reported_with("a name like `shop.example`, without port and scheme; other alphabets as `xn--…`"));
        }
        let domain = Spanned { value: domain, span: name.span };
        if !domains.contains(&domain) {
            domains.push(domain);
        }
    }
    if domains.is_empty() {
        return Err(diagnostics.error(at, "`domains` is required").reported_with("`domains: [shop.example]`"));
    }
    (acme.domains, acme.uses_http) = (domains, uses_http);
    if acme.storage.get().is_none() {
        return Err(diagnostics
            .error(at, "`storage` is required: certificates must outlive the process")
            .reported_with("`storage: /var/lib/tollgate/acme`, on a volume in a container"));
    }
    let at = acme.directory.span_or(at);
    acme.directory.fill(LETS_ENCRYPT);
    let uri = acme.directory().parse::<Uri>().ok();
    let Some(uri) = uri.filter(|uri| uri.scheme_str() == Some("https") && uri.host().is_some()) else {
        return Err(diagnostics
            .error(at, format!("`{}` is no https:// URL", acme.directory()))
            .reported_with(format!("such as `{LETS_ENCRYPT}`")));
    };
    add_server(&uri, at, diagnostics);
    Ok(Spanned { value: acme, span })
}

/// Start of the path of a challenge over HTTP (RFC 8555 §8.3).
const HTTP_PATH: &str = "/.well-known/acme-challenge/";
/// Protocol of a challenge over TLS (RFC 8737).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// Answers of the process. They outlive configurations: a reload during an order changes none.
static ANSWERS: LazyLock<RwLock<Answers>> = LazyLock::new(RwLock::default);

#[derive(Default)]
struct Answers {
    /// Texts by token.
    http: HashMap<String, String>,
    /// Certificates by name.
    tls: HashMap<String, Arc<CertifiedKey>>,
}

/// Answer to a challenge, given until this is dropped.
#[derive(Debug)]
pub struct ChallengeAnswer {
    over: Transport,
    key: String,
}

#[derive(Clone, Copy, Debug)]
enum Transport {
    Http,
    Tls,
}

impl ChallengeAnswer {
    /// Answers requests for `token` with `text`.
    #[must_use]
    pub fn http(token: &str, text: &str) -> Self {
        change(|answers| answers.http.insert(token.to_owned(), text.to_owned()));
        Self { over: Transport::Http, key: token.to_owned() }
    }

    /// Presents `certificate` to handshakes for `domain` with the protocol of challenges.
    #[must_use]
    pub fn tls(domain: &str, certificate: CertifiedKey) -> Self {
        change(|answers| answers.tls.insert(domain.to_owned(), Arc::new(certificate)));
        Self { over: Transport::Tls, key: domain.to_owned() }
    }
}

impl Drop for ChallengeAnswer {
    fn drop(&mut self) {
        change(|answers| match self.over {
            Transport::Http => drop(answers.http.remove(&self.key)),
            Transport::Tls => drop(answers.tls.remove(&self.key)),
        });
    }
}

fn change<R>(change: impl FnOnce(&mut Answers) -> R) {
    change(&mut ANSWERS.write().unwrap_or_else(PoisonError::into_inner));
}

/// Returns the text for a request with `path`, if it is a challenge that is being answered.
pub fn challenge_response(path: &str) -> Option<String> {
    let token = path.strip_prefix(HTTP_PATH)?;
    ANSWERS.read().unwrap_or_else(PoisonError::into_inner).http.get(token).cloned()
}

/// Returns the certificate for a handshake with the protocol of challenges.
pub(super) fn certificate(name: &str) -> Option<Arc<CertifiedKey>> {
    ANSWERS.read().unwrap_or_else(PoisonError::into_inner).tls.get(name).cloned()
}
