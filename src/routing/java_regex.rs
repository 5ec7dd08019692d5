//! Java's regular expressions, as Spring configurations write them, on Rust's engine.
//!
//! The engine takes time linear in the text whatever the expression, so no request can stall a worker. Its price is
//! that look-around, backreferences and possessive quantifiers don't exist: such an expression is refused at load.
//! Where the two dialects differ silently the Java meaning is kept: `\d`, `\w`, `\s` and `\b` are ASCII, and `\Q…\E`
//! quotes.

use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// The most bytes that one compiled expression may take: thousands of routes must fit into memory.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// A regular expression that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegexError {
    /// `(?=`, `(?!`, `(?<=` or `(?<!`.
    #[error("look-around such as `(?!…)` is not supported: rewrite the expression without it")]
    LookAround,
    /// `\1` or `\k<name>`.
    #[error("backreferences such as `\\1` are not supported: rewrite the expression without them")]
    Backreference,
    /// `(?>…)`, `a*+` and the like.
    #[error("possessive quantifiers and atomic groups are not supported: rewrite the expression without them")]
    Possessive,
    /// Compiled, the expression would take more than 1 MiB.
    #[error("the expression is too large once compiled: make its repetitions shorter")]
    TooLarge,
    /// What the engine says, in one line.
    #[error("{0}")]
    Syntax(String),
}

/// Compiles `expression` so that only a text that matches as a whole does, as Java's `Matcher.matches`.
pub(super) fn full_match(expression: &str) -> Result<Regex, RegexError> {
    compile(&format!("^(?:{})$", translate(expression)?))
}

/// Compiles an expression that is Rust's already.
pub(super) fn compile(expression: &str) -> Result<Regex, RegexError> {
    RegexBuilder::new(expression).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build().map_err(
        |error| match error {
            regex::Error::CompiledTooBig(_) => RegexError::TooLarge,
            other => RegexError::Syntax(last_line(&other.to_string())),
        },
    )
}

/// The engine's message ends in a line that says what is wrong; those before it draw where.
fn last_line(message: &str) -> String {
    let line = message.lines().next_back().unwrap_or(message).trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Puts a Java expression into Rust's dialect. What neither has is left for the engine to refuse, but for a `)` too many,
/// as in `a)(b`, which whatever is put around the expression would hide.
pub(super) fn translate(expression: &str) -> Result<String, RegexError> {
    let mut out = String::with_capacity(expression.len() + 16);
    let mut chars = expression.chars().peekable();
    let mut class_depth = 0_usize;
    let mut group_depth = 0_usize;
    // A `+` after a quantifier would repeat the repetition in Rust and forbids giving back in Java.
    let mut after_quantifier = false;
    let mut in_counts = false;
    while let Some(char) = chars.next() {
        let mut is_quantifier = false;
        match char {
            '\\' => escape(&mut chars, class_depth > 0, &mut out)?,
            '[' => {
                class_depth += 1;
                out.push('[');
                for first in ['^', ']'] {
                    out.extend(chars.next_if_eq(&first));
                }
            }
            ']' if class_depth > 0 => {
                class_depth -= 1;
                out.push(']');
            }
            _ if class_depth > 0 => out.push(char),
            '(' => {
                group_depth += 1;
                out.push('(');
                group(&mut chars, &mut out)?;
            }
            ')' => {
                let unopened = || RegexError::Syntax("unopened group".to_owned());
                group_depth = group_depth.checked_sub(1).ok_or_else(unopened)?;
                out.push(')');
            }
            '+' if after_quantifier => return Err(RegexError::Possessive),
            '{' => {
                in_counts = true;
                out.push('{');
            }
            '}' => {
                is_quantifier = in_counts;
                in_counts = false;
                out.push('}');
            }
            _ => {
                is_quantifier = matches!(char, '*' | '+' | '?');
                out.push(char);
            }
        }
        after_quantifier = is_quantifier;
    }
    Ok(out)
}

/// What follows a `(`.
fn group(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), RegexError> {
    if chars.next_if_eq(&'?').is_none() {
        return Ok(());
    }
    out.push('?');
    match chars.peek() {
        Some('=' | '!') => return Err(RegexError::LookAround),
        Some('>') => return Err(RegexError::Possessive),
        Some('<') => {
            out.extend(chars.next());
            if matches!(chars.peek(), Some('=' | '!')) {
                return Err(RegexError::LookAround);
            }
        }
        _ => {}
    }
    Ok(())
}

/// What follows a `\`.
fn escape(chars: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut String) -> Result<(), RegexError> {
    let Some(char) = chars.next() else {
        out.push('\\');
        return Ok(());
    };
    match char {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[A-Za-z0-9_]"),
        'W' => out.push_str("[^A-Za-z0-9_]"),
        's' => out.push_str(r"[\x20\t\n\x0B\f\r]"),
        'S' => out.push_str(r"[^\x20\t\n\x0B\f\r]"),
        'b' if !in_class => out.push_str(r"(?-u:\b)"),
        'Z' if !in_class => out.push_str(r"\z"),
        'k' | '1'..='9' if !in_class => return Err(RegexError::Backreference),
        'Q' => quoted(chars, out),
        _ => {
            out.extend(['\\', char]);
            // The braces of `\x{41}` or `\p{L}` are no counts.
            if matches!(char, 'x' | 'u' | 'p' | 'P') && chars.peek() == Some(&'{') {
                for inside in chars.by_ref() {
                    out.push(inside);
                    if inside == '}' {
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

/// The text up to `\E`, or to the end.
fn quoted(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut text = String::new();
    for char in chars.by_ref() {
        text.push(char);
        if text.ends_with(r"\E") {
            text.truncate(text.len() - 2);
            break;
        }
    }
    out.push_str(&regex::escape(&text));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::{RegexError, full_match};

    #[test]
    fn expressions_mean_what_java_means() {
        for (expression, yes, no) in [
            (r"\d+", "12", "1a"),
            (r"\d", "1", "\u{661}"),
            (r"\w+", "a_1", "\u{e9}"),
            (r"[\w.-]+", "a.b-c", "a b"),
            (r"\S*", "ab", "a b"),
            (r"(?x) a \s b", "a b", "ab"),
            ("a|b", "b", "ab"),
            ("(?i)gzip", "GZip", "zip"),
            (r"\Qa.b\E+", "a.bb", "axb"),
            ("[^]a]", "b", "]"),
            (r"ch.p", "chip", "chips"),
            (r"[a-z&&[^b]]", "a", "b"),
            (r"\bx\b", "x", "y"),
            (r"a{2,3}?", "aa", "a"),
            (r"\{a\}+", "{a}}", "{a"),
        ] {
            let regex = full_match(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
            assert!(regex.is_match(yes), "{expression} {yes}");
            assert!(!regex.is_match(no), "{expression} {no}");
        }
    }

    #[test]
    fn what_the_engine_has_not_is_refused_by_name() {
        for (expression, expected) in [
            ("(?!a)b", RegexError::LookAround),
            ("(?<=a)b", RegexError::LookAround),
            (r"(a)\1", RegexError::Backreference),
            (r"(?<n>a)\k<n>", RegexError::Backreference),
            (".*+x", RegexError::Possessive),
            ("a{2}+", RegexError::Possessive),
            ("(?>a)", RegexError::Possessive),
            (r"(?:[a-z]{100}){1000}", RegexError::TooLarge),
        ] {
            assert_eq!(full_match(expression).map(|_| ()), Err(expected), "{expression}");
        }
    }

    #[test]
    fn a_syntax_error_is_one_short_line() {
        for expression in ["(", "a)(b", "a)", "[a", "*"] {
            let error = full_match(expression).expect_err(expression).to_string();
            assert!(!error.contains('\n') && error.len() < 100, "{error}");
            assert!(!error.contains("^(?:"), "{error}");
        }
    }
}
