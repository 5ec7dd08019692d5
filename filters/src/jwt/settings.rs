//! Settings of a verifier.

use std::time::Duration;

use jsonwebtoken::Algorithm;

use super::source::TokenSource;

/// Conditions under which a token is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Accepted signature algorithms. Default: every asymmetric one.
    pub algorithms: Vec<Algorithm>,
    /// Accepted issuers, compared exactly. Empty: `iss` is not checked.
    pub issuers: Vec<String>,
    /// Accepted audiences, compared exactly; a token must name one. Empty: `aud` is not checked.
    pub audiences: Vec<String>,
    /// Tolerated clock difference: added to `exp`, subtracted from `nbf`. Default 60 s, as in Spring Security.
    pub leeway: Duration,
    /// Location of the token in a request.
    pub source: TokenSource,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithms: ASYMMETRIC.to_vec(),
            issuers: Vec::new(),
            audiences: Vec::new(),
            leeway: Duration::from_secs(60),
            source: TokenSource::default(),
        }
    }
}

/// Every algorithm but HMAC: a party that can verify with a shared secret can sign with it, too.
const ASYMMETRIC: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
