//! `Matcher.replaceAll`.

use std::iter::Peekable;
use std::str::Chars;

use thiserror::Error;

use crate::error::TooSlow;
use crate::regex::JavaRegex;

/// Maximum number of matches in one text for an expression that backtracks: each may take as long as one search.
const MAX_SLOW_MATCHES: usize = 256;

/// The replacement of a match: text, and groups of the match.
#[derive(Clone, Debug)]
pub struct Replacement {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

/// An invalid replacement, on which Java would fail.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplacementError {
    /// A `\` at the end.
    #[error("nothing follows the final `\\`: write `\\\\` for a backslash")]
    Escape,
    /// `$` without a digit or a brace after it.
    #[error("`$` must be followed by a group: write `\\$` for a dollar sign")]
    Dollar,
    /// `${` without `}`.
    #[error("`${{` is not closed: add `}}`")]
    Brace,
    /// The number of a group that does not exist.
    #[error("the regexp has no group {0}")]
    Number(usize),
    /// The name of a group that does not exist.
    #[error("the regexp has no group `{0}`")]
    Name(String),
}

// === impl Replacement ===

impl Replacement {
    /// Parses `text` as `Matcher.appendReplacement` does: `$1` and `${name}` are groups of `regex`, and `\` makes the next
    /// character literal. Further digits belong to a group's number as long as such a group exists.
    ///
    /// # Errors
    /// Returns an error if Java would fail on the replacement.
    pub fn parse(text: &str, regex: &JavaRegex) -> Result<Self, ReplacementError> {
        let (mut pieces, mut literal) = (Vec::new(), String::new());
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '\\' => literal.push(chars.next().ok_or(ReplacementError::Escape)?),
                '$' => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Group(parse_group(&mut chars, regex)?));
                }
                char => literal.push(char),
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self { pieces })
    }

    /// Returns true if the replacement contains groups other than the whole match.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Group(1..)))
    }

    /// Replaces each text between the groups with the result of `map`.
    ///
    /// # Errors
    /// Returns the first error of `map`.
    pub fn map_text<E>(&mut self, map: impl Fn(&str) -> Result<String, E>) -> Result<(), E> {
        for piece in &mut self.pieces {
            if let Piece::Text(text) = piece {
                *text = map(text)?;
            }
        }
        Ok(())
    }

    /// Replaces every match of `regex` in `text` and appends the result to `out`. Returns false, and appends nothing, if
    /// there is no match.
    ///
    /// # Errors
    /// Returns [`TooSlow`] past the backtracking limit; the content of `out` is then incomplete.
    pub fn replace_all(&self, regex: &JavaRegex, text: &[u8], out: &mut Vec<u8>) -> Result<bool, TooSlow> {
        if !regex.is_match(text)? {
            return Ok(false);
        }
        let mut matcher = if self.has_groups() { regex.matcher() } else { regex.matcher_without_groups() };
        let (mut from, mut copied, mut matches) = (0, 0, 0);
        // Unlike in Rust's `replace_all`, an empty match directly after another match counts.
        while from <= text.len() {
            let Some((start, end)) = matcher.find_at(text, from)? else { break };
            matches += 1;
            if matches > MAX_SLOW_MATCHES && regex.backtracks() {
                return Err(TooSlow);
            }
            out.extend_from_slice(&text[copied..start]);
            for piece in &self.pieces {
                match piece {
                    Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                    Piece::Group(0) => out.extend_from_slice(&text[start..end]),
                    Piece::Group(group) => {
                        // A group that did not participate is empty.
                        let (start, end) = matcher.group(*group).unwrap_or_default();
                        out.extend_from_slice(&text[start..end]);
                    }
                }
            }
            copied = end;
            from = end + usize::from(start == end);
        }
        out.extend_from_slice(&text[copied..]);
        Ok(true)
    }
}

/// Parses the group after a `$`.
fn parse_group(chars: &mut Peekable<Chars<'_>>, regex: &JavaRegex) -> Result<usize, ReplacementError> {
    if chars.next_if_eq(&'{').is_some() {
        let mut name = String::new();
        loop {
            match chars.next().ok_or(ReplacementError::Brace)? {
                '}' => return regex.group_index(&name).ok_or(ReplacementError::Name(name)),
                char => name.push(char),
            }
        }
    }
    let digit = |char: &char| char.to_digit(10).map(|digit| digit as usize);
    let mut group = chars.next().as_ref().and_then(digit).ok_or(ReplacementError::Dollar)?;
    if group >= regex.group_count() {
        return Err(ReplacementError::Number(group));
    }
    while let Some(next) = chars.peek().and_then(digit) {
        let longer = group * 10 + next;
        if longer >= regex.group_count() {
            break;
        }
        group = longer;
        chars.next();
    }
    Ok(group)
}
