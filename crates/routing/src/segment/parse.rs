//! From the text of a pattern to its parts.

use std::ops::Range;
use std::sync::Arc;

use tollgate_java_regex::{Charset, JavaRegex, RegexError, quote};

use super::super::pattern_error::PatternError;
use super::{Part, Segment, Token, group_name};

/// What is particular to path patterns or to host patterns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// What stands between two segments.
    pub(crate) separator: char,
    /// Whether `{*name}` takes several segments, and segments that no path in normal form has are refused.
    pub(crate) is_path: bool,
}

/// A piece of one segment, variables included.
enum Piece {
    Token(Token),
    Variable { name: Arc<str>, regex: Option<String> },
}

struct Parser<'p> {
    pattern: &'p str,
    dialect: Dialect,
    names: Vec<Arc<str>>,
}

/// Parses `pattern` from byte `start` on.
pub(crate) fn parse(pattern: &str, start: usize, dialect: Dialect) -> Result<Vec<Part>, PatternError> {
    let mut parser = Parser { pattern, dialect, names: Vec::new() };
    parser.split(start)?.into_iter().map(|segment| parser.part(segment)).collect()
}

// === impl Parser ===

impl Parser<'_> {
    /// The byte ranges of the segments. A separator inside braces belongs to a regular expression.
    fn split(&self, start: usize) -> Result<Vec<Range<usize>>, PatternError> {
        let mut segments = Vec::new();
        let mut from = start;
        let mut at = start;
        while let Some(char) = self.char_at(at) {
            if char == self.dialect.separator {
                segments.push(from..at);
                from = at + char.len_utf8();
            } else if char == '{' {
                at = self.closing(at)?;
            } else if char == '}' {
                return Err(PatternError::NotOpened { at: self.column(at) });
            }
            at += self.char_at(at).map_or(1, char::len_utf8);
        }
        segments.push(from..self.pattern.len());
        Ok(segments)
    }

    fn part(&mut self, range: Range<usize>) -> Result<Part, PatternError> {
        let text = self.text(range.clone());
        if text == "**" {
            return Ok(Part::Any(None));
        }
        let is_unreachable = matches!(text, "." | "..") || (text.is_empty() && range.end < self.pattern.len());
        if self.dialect.is_path && is_unreachable {
            return Err(PatternError::Unreachable { at: self.column(range.start) });
        }
        if self.dialect.is_path && text.starts_with("{*") && self.closing(range.start)? + 1 == range.end {
            let name = range.start + 2..range.end - 1;
            return Ok(Part::Any(Some(self.name(name)?)));
        }
        let pieces = self.pieces(range)?;
        self.segment(pieces).map(Part::One)
    }

    fn pieces(&mut self, range: Range<usize>) -> Result<Vec<Piece>, PatternError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut at = range.start;
        while at < range.end {
            let Some(char) = self.char_at(at) else { break };
            let piece = match char {
                '?' => Piece::Token(Token::One),
                '*' => Piece::Token(Token::Many),
                '{' => {
                    if matches!(pieces.last(), Some(Piece::Variable { .. })) && literal.is_empty() {
                        return Err(PatternError::Adjacent { at: self.column(at) });
                    }
                    let end = self.closing(at)?;
                    let piece = self.variable(at + 1..end)?;
                    at = end;
                    piece
                }
                _ => {
                    literal.push(char);
                    at += char.len_utf8();
                    continue;
                }
            };
            at += 1;
            push_literal(&mut literal, &mut pieces);
            pieces.push(piece);
        }
        push_literal(&mut literal, &mut pieces);
        Ok(pieces)
    }

    /// What stands between two braces.
    fn variable(&mut self, range: Range<usize>) -> Result<Piece, PatternError> {
        let text = self.text(range.clone());
        if text.starts_with('*') {
            return Err(PatternError::RestNotAlone { at: self.column(range.start) });
        }
        let Some((name, regex)) = text.split_once(':') else {
            return Ok(Piece::Variable { name: self.name(range)?, regex: None });
        };
        let regex_start = range.start + name.len() + 1;
        let invalid = |source| PatternError::Regex { at: self.column(regex_start), source };
        if regex.is_empty() {
            return Err(PatternError::NoRegex { at: self.column(regex_start) });
        }
        // Alone, so that the message speaks of what was written and not of what is built around it.
        let alone = JavaRegex::full_match(regex, Charset::Unicode).map_err(invalid)?;
        if alone.backtracks() && alone.groups() > 1 {
            // Among the groups of the segment, `\1` would be another one. Spring has no groups here at all.
            let message = "look-around and the like cannot stand beside groups here: write `(?:…)` for `(…)`";
            return Err(invalid(RegexError::Invalid(message.to_owned())));
        }
        let regex = Some(regex.to_owned());
        let name = self.name(range.start..regex_start - 1)?;
        Ok(Piece::Variable { name, regex })
    }

    fn name(&mut self, range: Range<usize>) -> Result<Arc<str>, PatternError> {
        let text = self.text(range.clone());
        let starts_well = text.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | '$'));
        if !starts_well || !text.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '$' | '-')) {
            return Err(PatternError::Name { at: self.column(range.start), name: text.to_owned() });
        }
        let name: Arc<str> = text.into();
        if self.names.contains(&name) {
            return Err(PatternError::NameTwice { at: self.column(range.start), name: text.to_owned() });
        }
        self.names.push(Arc::clone(&name));
        Ok(name)
    }

    fn segment(&self, mut pieces: Vec<Piece>) -> Result<Segment, PatternError> {
        let has_variable = pieces.iter().any(|piece| matches!(piece, Piece::Variable { .. }));
        if pieces.len() <= 1 {
            match pieces.pop() {
                None => return Ok(Segment::Empty),
                Some(Piece::Token(Token::Literal(text))) => return Ok(Segment::Literal(text)),
                Some(Piece::Token(Token::Many)) => return Ok(Segment::Any),
                Some(Piece::Variable { name, regex: None }) => return Ok(Segment::Variable(name)),
                Some(other) => pieces.push(other),
            }
        }
        if has_variable {
            return self.regex(pieces);
        }
        let tokens = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Token(token) => Some(token),
            Piece::Variable { .. } => None,
        });
        Ok(Segment::Glob(tokens.collect()))
    }

    /// One expression for a segment in which variables stand beside other text.
    fn regex(&self, pieces: Vec<Piece>) -> Result<Segment, PatternError> {
        let mut names = Vec::new();
        let mut expression = String::new();
        for piece in pieces {
            match piece {
                Piece::Token(Token::Literal(text)) => expression.push_str(&quote(&text)),
                Piece::Token(Token::One) => expression.push_str("(?s:.)"),
                Piece::Token(Token::Many) => expression.push_str("(?s:.*)"),
                Piece::Variable { name, regex } => {
                    let regex = regex.as_deref().unwrap_or("(?s:.*)");
                    expression.push_str(&format!("(?<{}>{regex})", group_name(names.len())));
                    names.push(name);
                }
            }
        }
        let regex = JavaRegex::full_match(&expression, Charset::Unicode)
            .map_err(|source| PatternError::Regex { at: 1, source })?;
        Ok(Segment::Regex { regex, names: names.into() })
    }

    /// The place of the brace that closes the one at `open`. Braces of a regular expression nest; `\` escapes one.
    fn closing(&self, open: usize) -> Result<usize, PatternError> {
        let mut depth = 0_usize;
        let mut is_escaped = false;
        for (offset, char) in self.pattern.get(open..).unwrap_or_default().char_indices() {
            match char {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '{' => depth += 1,
                '}' if depth == 1 => return Ok(open + offset),
                '}' => depth -= 1,
                _ => {}
            }
        }
        Err(PatternError::NotClosed { at: self.column(open) })
    }

    fn text(&self, range: Range<usize>) -> &str {
        self.pattern.get(range).unwrap_or_default()
    }

    fn char_at(&self, at: usize) -> Option<char> {
        self.pattern.get(at..)?.chars().next()
    }

    /// Characters count from 1, as editors count them.
    fn column(&self, at: usize) -> usize {
        self.pattern.get(..at).unwrap_or_default().chars().count() + 1
    }
}

fn push_literal(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        pieces.push(Piece::Token(Token::Literal(std::mem::take(literal).into())));
    }
}
