//! What can be wrong with a path or host pattern.

use thiserror::Error;
use tollgate_java_regex::RegexError;

/// A path or host pattern that cannot be used. `at` counts the characters of the pattern from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// There is no text.
    #[error("the pattern is empty: write `**` to match everything")]
    Empty,
    /// `{` without `}`.
    #[error("`{{` at character {at} is never closed: add `}}`")]
    NotClosed {
        /// Where the brace stands.
        at: usize,
    },
    /// `}` without `{`.
    #[error("`}}` at character {at} closes nothing: remove it or add `{{` before it")]
    NotOpened {
        /// Where the brace stands.
        at: usize,
    },
    /// `{a}{b}`: nothing says where the first ends.
    #[error("the variable at character {at} follows another at once: put text between them")]
    Adjacent {
        /// Where the second variable starts.
        at: usize,
    },
    /// `{*name}` beside other text.
    #[error("`*` at character {at}: `{{*name}}` must be a whole path segment: put it between slashes")]
    RestNotAlone {
        /// Where the `*` stands.
        at: usize,
    },
    /// A variable without a name, or with one that is no identifier.
    #[error("`{name}` at character {at} is no variable name: use letters, digits, `_`, `$` and `-`, a letter first")]
    Name {
        /// Where the name starts.
        at: usize,
        /// The name.
        name: String,
    },
    /// Two variables of one name.
    #[error("variable `{name}` at character {at} occurs twice: give one of them another name")]
    NameTwice {
        /// Where the second one starts.
        at: usize,
        /// The name.
        name: String,
    },
    /// `{name:}`.
    #[error("the regular expression at character {at} is empty: write it, or remove the `:`")]
    NoRegex {
        /// Where it should start.
        at: usize,
    },
    /// A regular expression that does not compile.
    #[error("the regular expression at character {at} cannot be used")]
    Regex {
        /// Where it starts.
        at: usize,
        /// Why not.
        source: RegexError,
    },
    /// A segment that no path in normal form has: an empty one in the middle, `.` or `..`.
    #[error("the segment at character {at} is empty, `.` or `..`, which no request path holds: remove it")]
    Unreachable {
        /// Where the segment starts.
        at: usize,
    },
}
