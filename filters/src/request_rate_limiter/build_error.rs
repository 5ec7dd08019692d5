//! Errors of the builder.

use thiserror::Error;
use tollgate_limiter::store::MAX_CHECKS;

/// Reason why a limiter cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The list of rules is empty.
    #[error("a limiter without rules limits nothing: add a rule")]
    NoRules,
    /// A list has more rules than a store decides in one call.
    #[error("a limiter has at most {MAX_CHECKS} rules, got {0}: add a second limiter, which is decided after this one")]
    TooManyRules(usize),
    /// The key resolver reads claims of tokens that nothing verifies, so that no request has a key.
    #[error("the key resolver `{0}` has no verifier of tokens: set one with `KeyResolver::with_jwt`")]
    NeedsVerifier(String),
}
