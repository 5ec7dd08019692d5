//! Errors of compiling and of searching.

use thiserror::Error;

/// Maximum number of backtracking steps of one search, about a millisecond. Further steps end it with [`TooSlow`].
pub const MAX_BACKTRACKS: usize = 10_000;

/// An invalid or unsupported expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegexError {
    /// `\G`, `\X`, `\R`, `(?U)` and similar syntax.
    #[error("`{0}` is not supported: rewrite the expression without it")]
    Unsupported(String),
    /// An expression that Java rejects as well.
    #[error("{0}")]
    Invalid(String),
    /// The compiled expression would exceed 1 MiB.
    #[error("the expression is too large once compiled: make its repetitions shorter")]
    TooLarge,
    /// All expressions that are compiled [`together`](crate::together) would take too long.
    #[error("the expressions of the configuration are too large together: make their repetitions and classes shorter")]
    TooLargeTogether,
    /// The engine's message, in one line.
    #[error("{0}")]
    Syntax(String),
}

/// A search took more than [`MAX_BACKTRACKS`] backtracking steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the search exceeded the limit of {MAX_BACKTRACKS} backtracking steps")]
pub struct TooSlow;
