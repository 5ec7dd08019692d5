//! `Matcher.replaceAll`.

use thiserror::Error;

use super::{JavaRegex, TooSlow};

/// Matches that an expression which backtracks may replace in one text: each may take as long as one search may.
const MAX_SLOW_MATCHES: usize = 256;

/// What matches become: text, and groups of the match.
#[derive(Clone, Debug)]
pub struct Replacement {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

/// A replacement that Java would fail on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplacementError {
    /// A `\` at the end.
    #[error("a `\\` at the end escapes nothing")]
    Escape,
    /// `$` before what is neither a digit nor a brace.
    #[error("`$` must be followed by a group, write `\\$` for a dollar")]
    Dollar,
    /// `${` without `}`.
    #[error("`${{` needs a `}}`")]
    Brace,
    /// A group that the expression does not have.
    #[error("the regexp has no group {0}")]
    Number(usize),
    /// A group that the expression does not have.
    #[error("the regexp has no group `{0}`")]
    Name(String),
}

// === impl Replacement ===

impl Replacement {
    /// Reads `text` as `Matcher.appendReplacement` does: `$1` and `${name}` are groups of `regex`, and `\` stands before
    /// what is meant literally. Further digits count as long as there is such a group.
    ///
    /// # Errors
    /// What Java fails on when it replaces.
    pub fn parse(text: &str, regex: &JavaRegex) -> Result<Self, ReplacementError> {
        let (mut pieces, mut literal) = (Vec::new(), String::new());
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let group = match char {
                '\\' => {
                    literal.push(chars.next().ok_or(ReplacementError::Escape)?);
                    continue;
                }
                '$' if chars.next_if_eq(&'{').is_some() => {
                    let mut name = String::new();
                    loop {
                        match chars.next().ok_or(ReplacementError::Brace)? {
                            '}' => break,
                            char => name.push(char),
                        }
                    }
                    regex.group(&name).ok_or(ReplacementError::Name(name))?
                }
                '$' => {
                    let digit = |char: &char| char.to_digit(10).map(|digit| digit as usize);
                    let mut group = chars.next().as_ref().and_then(digit).ok_or(ReplacementError::Dollar)?;
                    if group >= regex.groups() {
                        return Err(ReplacementError::Number(group));
                    }
                    while let Some(next) = chars.peek().and_then(digit) {
                        let longer = group * 10 + next;
                        if longer >= regex.groups() {
                            break;
                        }
                        group = longer;
                        chars.next();
                    }
                    group
                }
                char => {
                    literal.push(char);
                    continue;
                }
            };
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Group(group));
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self { pieces })
    }

    /// Whether it holds groups other than the whole match.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Group(1..)))
    }

    /// Puts what `map` makes of it in the place of every text between the groups.
    pub fn map_text<E>(&mut self, map: impl Fn(&str) -> Result<String, E>) -> Result<(), E> {
        for piece in &mut self.pieces {
            if let Piece::Text(text) = piece {
                *text = map(text)?;
            }
        }
        Ok(())
    }

    /// Appends `text` with every match of `regex` replaced to `out`, unless there is none.
    ///
    /// # Errors
    /// Where that takes too long; what stands in `out` then is of no use.
    pub fn replace_all(&self, regex: &JavaRegex, text: &[u8], out: &mut Vec<u8>) -> Result<bool, TooSlow> {
        if !regex.is_match(text)? {
            return Ok(false);
        }
        let mut matcher = if self.has_groups() { regex.matcher() } else { regex.finder() };
        let (mut from, mut copied, mut matches) = (0, 0, 0);
        // Unlike in Rust's own replacing, an empty match right behind another one counts.
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
                        // A group that took no part is empty.
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
