//! Answers to the challenges of an ACME server, by which it verifies that a name belongs to this gateway.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use rustls::sign::CertifiedKey;

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
#[must_use]
pub fn challenge_response(path: &str) -> Option<String> {
    let token = path.strip_prefix(HTTP_PATH)?;
    ANSWERS.read().unwrap_or_else(PoisonError::into_inner).http.get(token).cloned()
}

/// Returns the certificate for a handshake with the protocol of challenges.
pub(super) fn certificate(name: &str) -> Option<Arc<CertifiedKey>> {
    ANSWERS.read().unwrap_or_else(PoisonError::into_inner).tls.get(name).cloned()
}
