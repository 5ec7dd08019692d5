//! JSON Web Tokens: claims of a request that may be believed.
//!
//! A [`Verifier`] holds a [`KeySet`] and the rules of [`Settings`]. It finds a request's token, verifies its signature
//! (RFC 7515) and its `exp`, `nbf`, `iss` and `aud` (RFC 7519), and reads claims of it. A token counts only if
//!
//! - its `alg` is on the list; `none` never is, and HMAC must be named to be,
//! - a key of the set fits: the key that its `kid` names, or, without `kid`, one of the keys made for its `alg`. A key
//!   fits no `alg` but those of its own type, so that nobody signs with a public key as though it were a secret,
//! - it has an `exp`, which lies ahead.
//!
//! Verifying takes tens of microseconds, so that outcomes are remembered by the token's SHA-256, bounded, and for
//! the present key set only. Times are looked at whenever a token is used: what has expired is never served.
//!
//! ```
//! use std::sync::Arc;
//! use http::Request;
//! use tollgate_filters::jwt::{KeySet, Settings, Verifier};
//! use tollgate_filters::key_resolver::{KeyBuf, KeyResolver};
//!
//! let keys = KeySet::parse(br#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a",
//!     "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#)?;
//! let verifier = Arc::new(Verifier::new(Settings::default(), keys));
//! let resolver = KeyResolver::parse("jwt:sub")?.with_jwt(&verifier);
//! let request = Request::builder().header("Authorization", "Bearer forged").body(())?;
//! assert_eq!(resolver.resolve(&request, &mut KeyBuf::new()), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
mod claims;
mod key_set;
mod source;
#[cfg(test)]
mod tests;
mod verifier;

use std::time::Duration;

pub use jsonwebtoken::Algorithm;
use thiserror::Error;

pub use self::key_set::{KeySet, KeySetError};
pub use self::source::TokenSource;
pub use self::verifier::{Claims, Verifier};

/// Which tokens count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Signature algorithms that are accepted. Default: every asymmetric one.
    pub algorithms: Vec<Algorithm>,
    /// Issuers that are accepted, compared exactly; empty: any, and none.
    pub issuers: Vec<String>,
    /// Audiences of which a token must name one, compared exactly; empty: `aud` is not looked at.
    pub audiences: Vec<String>,
    /// By how much clocks may differ: added to `exp`, taken off `nbf`. Default 60 s, as Spring Security's.
    pub leeway: Duration,
    /// Where a request carries its token.
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

/// Without HMAC: whoever can verify with a shared secret can sign with it, too.
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

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no signed JWT of a known algorithm, or longer than 16 KB.
    #[error("the token is no signed JWT")]
    Malformed,
    /// Its `alg` is not on the list.
    #[error("the token's `alg` is not accepted")]
    Algorithm,
    /// It wants something understood that is not (`crit`, RFC 7515 §4.1.11).
    #[error("the token has a `crit` header")]
    Critical,
    /// No key has the name in its `kid`.
    #[error("the token's `kid` names no key of the set")]
    UnknownKey,
    /// No key is made for its `alg`.
    #[error("no key of the set fits the token's `alg`")]
    NoKey,
    /// No fitting key made its signature.
    #[error("the token's signature is wrong")]
    Signature,
    /// `exp` is missing, or a time is not a number.
    #[error("the token's `exp` is missing, or one of its times is no number")]
    Times,
    /// `iss` is not one of those accepted.
    #[error("the token's `iss` is not accepted")]
    Issuer,
    /// `aud` names none of those accepted.
    #[error("the token's `aud` is not accepted")]
    Audience,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` lies ahead.
    #[error("the token is not valid yet")]
    NotYet,
}
