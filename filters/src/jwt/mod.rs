//! JSON Web Tokens: verified claims of a request.
//!
//! A [`Verifier`] holds a [`KeySet`] and [`Settings`]. It finds a request's token, verifies its signature (RFC 7515)
//! and its `exp`, `nbf`, `iss` and `aud` (RFC 7519), and reads its claims. A token is accepted only if
//!
//! - its `alg` is in the list; `none` never is, and HMAC algorithms must be listed explicitly,
//! - a key of the set fits: the key that its `kid` names, or, without a `kid`, one of the keys for its `alg`. A key fits
//!   only algorithms of its own type, so that a public key never serves as an HMAC secret,
//! - it has an `exp` in the future.
//!
//! Verifying takes tens of microseconds. A bounded cache therefore keeps outcomes by the token's SHA-256, for the
//! current key set only. Times are checked on every use: an expired token is never accepted.
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

mod claims;
mod error;
mod key_set;
#[cfg(test)]
mod tests;
mod token_source;
mod verifier;

pub use jsonwebtoken::Algorithm;

pub use self::claims::Settings;
pub use self::error::TokenError;
pub use self::key_set::{KeySet, KeySetError};
pub use self::token_source::TokenSource;
pub use self::verifier::{Claims, Verifier};
