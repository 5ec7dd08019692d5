//! `RewritePath`: Java's `String.replaceAll` on linear-time regular expressions.

use regex::bytes::{Regex, RegexBuilder};

use super::EditError;
use super::path::checked_text;

/// A pattern and what its matches become.
///
/// The pattern works on bytes and knows ASCII only, as Java's does unless told otherwise: `\d` is `0` to `9`.
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    regex: Regex,
    replacement: Vec<Piece>,
    /// Whether the replacement names groups, which makes a match slower and allocate.
    has_groups: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

// === impl Rewrite ===

impl Rewrite {
    pub(super) fn new(regexp: &str, replacement: &str) -> Result<Self, EditError> {
        let unusable = |problem: &str| EditError::Regexp { regexp: regexp.to_owned(), problem: problem.to_owned() };
        if has_possessive_quantifier(regexp) {
            return Err(unusable("possessive quantifiers are not supported, write the plain one"));
        }
        let regex = RegexBuilder::new(regexp).unicode(false).build().map_err(|error| {
            // The message draws the pattern over several lines; its last one says what is wrong.
            let text = error.to_string();
            unusable(text.lines().last().unwrap_or_default().trim_start_matches("error: "))
        })?;
        let pieces = parse_replacement(replacement, &regex)
            .map_err(|problem| EditError::Replacement { replacement: replacement.to_owned(), problem })?;
        let pieces = pieces.into_iter().map(|piece| match piece {
            Piece::Text(text) => checked_text(&text, replacement).map(Piece::Text),
            group @ Piece::Group(_) => Ok(group),
        });
        let replacement = pieces.collect::<Result<Vec<_>, _>>()?;
        let has_groups = replacement.iter().any(|piece| matches!(piece, Piece::Group(_)));
        Ok(Self { regex, replacement, has_groups })
    }

    /// Writes `path` with every match replaced to `out`, unless there is none.
    pub(super) fn apply(&self, path: &str, out: &mut Vec<u8>) -> bool {
        let path = path.as_bytes();
        if !self.regex.is_match(path) {
            return false;
        }
        let (mut from, mut copied, mut groups) = (0, 0, self.regex.capture_locations());
        // Unlike the regex crate's own replacing, an empty match right behind another one counts, as in Java.
        while from <= path.len() {
            let found = if self.has_groups {
                self.regex.captures_read_at(&mut groups, path, from)
            } else {
                self.regex.find_at(path, from)
            };
            let Some(found) = found else { break };
            out.extend_from_slice(&path[copied..found.start()]);
            for piece in &self.replacement {
                match piece {
                    Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                    Piece::Group(group) => {
                        // A group that took no part is empty, as in Java.
                        let (start, end) = groups.get(*group).unwrap_or_default();
                        out.extend_from_slice(&path[start..end]);
                    }
                }
            }
            copied = found.end();
            from = found.end() + usize::from(found.is_empty());
        }
        out.extend_from_slice(&path[copied..]);
        true
    }
}

/// Reads a replacement as `java.util.regex.Matcher.appendReplacement` does, after Spring's `$\` for `$`.
fn parse_replacement(replacement: &str, regex: &Regex) -> Result<Vec<Piece>, String> {
    let text = replacement.replace("$\\", "$");
    let (mut pieces, mut literal) = (Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => literal.push(chars.next().ok_or("a `\\` at the end escapes nothing")?),
            '$' => {
                let group = match chars.peek() {
                    Some('{') => {
                        chars.next();
                        let mut name = String::new();
                        loop {
                            match chars.next().ok_or("`${` needs a `}`")? {
                                '}' => break,
                                c => name.push(c),
                            }
                        }
                        regex
                            .capture_names()
                            .position(|group| group == Some(name.as_str()))
                            .ok_or_else(|| format!("the regexp has no group `{name}`"))?
                    }
                    _ => {
                        let first = chars.next().and_then(|c| c.to_digit(10));
                        let mut group =
                            first.ok_or("`$` must be followed by a group, write `\\$` for a dollar")? as usize;
                        if group >= regex.captures_len() {
                            return Err(format!("the regexp has no group {group}"));
                        }
                        // Further digits count as long as there is such a group.
                        while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                            let longer = group * 10 + digit as usize;
                            if longer >= regex.captures_len() {
                                break;
                            }
                            group = longer;
                            chars.next();
                        }
                        group
                    }
                };
                if !literal.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Group(group));
            }
            c => literal.push(c),
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Ok(pieces)
}

/// Whether the pattern has `*+`, `++`, `?+` or `}+` outside of a class. The regex crate would take it for a repeated
/// repetition, which matches other text than Java does.
fn has_possessive_quantifier(regexp: &str) -> bool {
    let (mut depth, mut after_quantifier) = (0_u32, false);
    let mut chars = regexp.chars();
    while let Some(c) = chars.next() {
        let was_quantifier = std::mem::replace(&mut after_quantifier, false);
        match c {
            '\\' => {
                chars.next();
            }
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '+' if depth == 0 && was_quantifier => return true,
            '*' | '+' | '?' | '}' if depth == 0 => after_quantifier = true,
            _ => {}
        }
    }
    false
}
