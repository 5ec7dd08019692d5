//! Java's regular expressions (`java.util.regex.Pattern`) with bounded run time.
//!
//! An expression is translated to the syntax of Rust's engines. Syntax that has another meaning there keeps Java's
//! meaning: `\d`, `\w` and `\s` are ASCII, `\<` is a `<`, `[\w-.]` contains a hyphen, `[[:x:]]` is not a POSIX class.
//! Unsupported syntax is an error that names it.
//!
//! The expression decides between two engines. The linear engine takes time in proportion to the length of the text, so
//! that no request can block a worker. Look-around, back-references and possessive quantifiers need the backtracking
//! engine. A search there ends with [`TooSlow`] after [`MAX_BACKTRACKS`] steps; Java has no such limit.
//!
//! Known differences:
//! - `.` excludes only `\n`.
//! - `$` and `\Z` match only at the very end.
//! - `(?i)` folds letters beyond ASCII if the text is Unicode.
//! - Repetitions of expressions that match the empty text, such as `(a*|b)+`, may match or capture other text: see
//!   [`JavaRegex::repeats_empty_match`].

mod budget;
mod charset;
mod class;
mod error;
mod escape;
mod regex;
mod replace;
mod translate;

pub use self::budget::together;
pub use self::charset::Charset;
pub use self::error::{MAX_BACKTRACKS, RegexError, TooSlow};
pub use self::regex::{JavaRegex, Matcher};
pub use self::replace::{Replacement, ReplacementError};

/// Returns an expression that matches exactly `text`.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii() && !char.is_ascii_alphanumeric() {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

#[cfg(test)]
mod tests;
