//! Reasons to reject a token.

use thiserror::Error;

/// Reason to reject a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Not a signed JWT of a known algorithm, or longer than 16 KB.
    #[error("not a signed JWT")]
    Malformed,
    /// Its `alg` is not in the list.
    #[error("`alg` is not accepted")]
    Algorithm,
    /// It has a `crit` header: critical extensions are not supported (RFC 7515 §4.1.11).
    #[error("`crit` header is not supported")]
    Critical,
    /// No key of the set has the id in the token's `kid`.
    #[error("`kid` names no key of the set")]
    UnknownKey,
    /// No key fits its `alg`.
    #[error("no key of the set fits `alg`")]
    NoKey,
    /// No fitting key verifies its signature.
    #[error("wrong signature")]
    Signature,
    /// `exp` is missing, or a time is not a number.
    #[error("`exp` is missing, or `exp` or `nbf` is not a number")]
    Times,
    /// `iss` is not accepted.
    #[error("`iss` is not accepted")]
    Issuer,
    /// `aud` names no accepted audience.
    #[error("`aud` is not accepted")]
    Audience,
    /// `exp` has passed.
    #[error("expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("not valid yet")]
    NotYet,
}
