//! Parsing of path and host patterns.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use tollgate_java_regex::{Charset, JavaRegex, RegexError, quote};

use super::matcher::PatternPart;
use super::pattern::{GlobToken, SegmentPattern, group_name};
use crate::error::PatternError;

/// The two kinds of patterns. Only path patterns have `{*name}` and reject segments that no normalized path contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternKind {
    Path,
    Host,
}

/// A piece of one segment.
enum Piece {
    Glob(GlobToken),
    Variable { name: Arc<str>, regex: Option<String> },
}

struct Parser<'p> {
    pattern: &'p str,
    kind: PatternKind,
    names: HashSet<Arc<str>>,
}

/// Parses `pattern`, starting at byte `start`.
pub(super) fn parse(pattern: &str, start: usize, kind: PatternKind) -> Result<Vec<PatternPart>, PatternError> {
    let mut parser = Parser { pattern, kind, names: HashSet::new() };
    parser.split(start)?.into_iter().map(|segment| parser.part(segment)).collect()
}

// === impl PatternKind ===

impl PatternKind {
    /// Returns the kind with this character between two segments.
    pub(super) const fn of_separator(separator: char) -> Self {
        if separator == '.' { Self::Host } else { Self::Path }
    }

    fn separator(self) -> char {
        match self {
            Self::Path => '/',
            Self::Host => '.',
        }
    }
}

// === impl Parser ===

impl Parser<'_> {
    /// Returns the byte ranges of the segments. A separator inside braces belongs to a regular expression.
    fn split(&self, start: usize) -> Result<Vec<Range<usize>>, PatternError> {
        let mut segments = Vec::new();
        let mut from = start;
        let mut at = start;
        while let Some(char) = self.char_at(at) {
            if char == self.kind.separator() {
                segments.push(from..at);
                from = at + char.len_utf8();
            } else if char == '{' {
                at = self.closing_brace(at)?;
            } else if char == '}' {
                return Err(PatternError::NotOpened { at: self.column(at) });
            }
            at += self.char_at(at).map_or(1, char::len_utf8);
        }
        segments.push(from..self.pattern.len());
        Ok(segments)
    }

    fn part(&mut self, range: Range<usize>) -> Result<PatternPart, PatternError> {
        let text = self.text(range.clone());
        if text == "**" {
            return Ok(PatternPart::AnySegments(None));
        }
        let is_unreachable = matches!(text, "." | "..") || (text.is_empty() && range.end < self.pattern.len());
        if self.kind == PatternKind::Path && is_unreachable {
            return Err(PatternError::Unreachable { at: self.column(range.start) });
        }
        if self.kind == PatternKind::Path && text.starts_with("{*") && self.closing_brace(range.start)? + 1 == range.end
        {
            let name = range.start + 2..range.end - 1;
            return Ok(PatternPart::AnySegments(Some(self.name(name)?)));
        }
        let pieces = self.pieces(range)?;
        self.segment(pieces).map(PatternPart::Segment)
    }

    fn pieces(&mut self, range: Range<usize>) -> Result<Vec<Piece>, PatternError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut at = range.start;
        while at < range.end {
            let Some(char) = self.char_at(at) else { break };
            let piece = match char {
                '?' => Piece::Glob(GlobToken::AnyChar),
                '*' => Piece::Glob(GlobToken::AnyChars),
                '{' => {
                    if matches!(pieces.last(), Some(Piece::Variable { .. })) && literal.is_empty() {
                        return Err(PatternError::Adjacent { at: self.column(at) });
                    }
                    let end = self.closing_brace(at)?;
                    let piece = self.variable(at + 1..end)?;
                    at = end;
                    piece
                }
                _ => {
                    // A host in normal form is in lower case.
                    literal.push(if self.kind == PatternKind::Host { char.to_ascii_lowercase() } else { char });
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

    /// Parses the text between two braces.
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
        // Compiled alone first, so that errors quote the user's expression instead of the generated one.
        let alone = JavaRegex::full_match(regex, Charset::Unicode).map_err(invalid)?;
        if alone.backtracks() && alone.group_count() > 1 {
            // `\1` would refer to a generated group of the segment. Spring allows no groups here at all.
            let message = "look-around, back-references and possessive quantifiers cannot be combined with groups \
                           here: write `(?:…)` for `(…)`";
            return Err(invalid(RegexError::Invalid(message.to_owned())));
        }
        let has_upper_case = regex.bytes().any(|byte| byte.is_ascii_uppercase());
        let regex = match self.kind {
            PatternKind::Host if has_upper_case => format!("(?i:{regex})"),
            PatternKind::Host | PatternKind::Path => regex.to_owned(),
        };
        let regex = Some(regex);
        let name = self.name(range.start..regex_start - 1)?;
        Ok(Piece::Variable { name, regex })
    }

    fn name(&mut self, range: Range<usize>) -> Result<Arc<str>, PatternError> {
        let text = self.text(range.clone());
        let has_valid_start = text.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | '$'));
        if !has_valid_start || !text.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '$' | '-')) {
            return Err(PatternError::Name { at: self.column(range.start), name: text.to_owned() });
        }
        let name: Arc<str> = text.into();
        if !self.names.insert(Arc::clone(&name)) {
            return Err(PatternError::NameTwice { at: self.column(range.start), name: name.to_string() });
        }
        Ok(name)
    }

    fn segment(&self, mut pieces: Vec<Piece>) -> Result<SegmentPattern, PatternError> {
        let has_variable = pieces.iter().any(|piece| matches!(piece, Piece::Variable { .. }));
        if pieces.len() <= 1 {
            match pieces.pop() {
                None => return Ok(SegmentPattern::Empty),
                Some(Piece::Glob(GlobToken::Literal(text))) => return Ok(SegmentPattern::Literal(text)),
                Some(Piece::Glob(GlobToken::AnyChars)) => return Ok(SegmentPattern::AnyText),
                Some(Piece::Variable { name, regex: None }) => return Ok(SegmentPattern::Variable(name)),
                Some(other) => pieces.push(other),
            }
        }
        if has_variable {
            return self.regex(pieces);
        }
        let tokens = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Glob(token) => Some(token),
            Piece::Variable { .. } => None,
        });
        Ok(SegmentPattern::Glob(tokens.collect()))
    }

    /// Builds one expression for a segment that mixes variables and other text.
    fn regex(&self, pieces: Vec<Piece>) -> Result<SegmentPattern, PatternError> {
        let mut names = Vec::new();
        let mut expression = String::new();
        for piece in pieces {
            match piece {
                Piece::Glob(GlobToken::Literal(text)) => expression.push_str(&quote(&text)),
                Piece::Glob(GlobToken::AnyChar) => expression.push_str("(?s:.)"),
                Piece::Glob(GlobToken::AnyChars) => expression.push_str("(?s:.*)"),
                Piece::Variable { name, regex } => {
                    let regex = regex.as_deref().unwrap_or("(?s:.*)");
                    expression.push_str(&format!("(?<{}>{regex})", group_name(names.len())));
                    names.push(name);
                }
            }
        }
        let regex = JavaRegex::full_match(&expression, Charset::Unicode)
            .map_err(|source| PatternError::Regex { at: 1, source })?;
        Ok(SegmentPattern::Regex { regex, names: names.into() })
    }

    /// Returns the position of the brace that closes the one at `open`. Braces of a regular expression nest; `\` escapes
    /// one.
    fn closing_brace(&self, open: usize) -> Result<usize, PatternError> {
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

    /// Converts a byte offset to a character position from 1.
    fn column(&self, at: usize) -> usize {
        self.pattern.get(..at).unwrap_or_default().chars().count() + 1
    }
}

fn push_literal(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        pieces.push(Piece::Glob(GlobToken::Literal(std::mem::take(literal).into())));
    }
}
