//! The pattern of one segment of a path, or of one label of a host.

use std::sync::Arc;

use tollgate_java_regex::JavaRegex;

use super::text::{DecodedBytes, SegmentText};
use crate::decision::Decision;
use crate::request::{Variables, set_variable};

/// The pattern of one segment.
#[derive(Clone, Debug)]
pub(crate) enum SegmentPattern {
    /// The empty segment: the pattern ends in a separator.
    Empty,
    /// This text.
    Literal(Box<str>),
    /// `*`: any text. Empty text matches only at the end of the pattern, so that `/a/*` matches `/a/`.
    AnyText,
    /// Text with `?` and `*`.
    Glob(Box<[GlobToken]>),
    /// `{name}`: any text that is not empty.
    Variable(Arc<str>),
    /// `{name:regex}`, or variables mixed with other text: text that is not empty. Name `n` belongs to the group
    /// [`group_name`]`(n)`.
    Regex { regex: JavaRegex, names: Box<[Arc<str>]> },
}

/// A piece of a [`SegmentPattern::Glob`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GlobToken {
    Literal(Box<str>),
    /// `?`: one character.
    AnyChar,
    /// `*`: any number of characters.
    AnyChars,
}

/// Returns the capture group of the variable at `index` of a segment. The prefix keeps it apart from users' groups.
pub(super) fn group_name(index: usize) -> String {
    format!("tollgate_v{index}")
}

// === impl SegmentPattern ===

impl SegmentPattern {
    /// Decides if `text` matches. `is_last` is true if the pattern ends here.
    pub(super) fn decide(&self, text: SegmentText<'_>, is_last: bool) -> Decision {
        let matches = match self {
            Self::Empty => text.raw_is_empty(),
            Self::Literal(literal) => text.equals(literal),
            Self::AnyText => is_last || !text.is_empty(),
            Self::Glob(tokens) => glob(tokens, text.bytes()),
            Self::Variable(_) => !text.is_empty(),
            Self::Regex { .. } if text.is_empty() => false,
            Self::Regex { regex, .. } => return regex.is_match(text.decoded().as_bytes()).into(),
        };
        matches.into()
    }

    /// Returns true if this pattern certainly matches each text that `narrow` matches. `is_last` and `is_narrow_last` are
    /// true for the last segments of their patterns.
    pub(crate) fn covers(&self, narrow: &Self, is_last: bool, is_narrow_last: bool) -> bool {
        match (self, narrow) {
            (Self::AnyText, _) if is_last => true,
            (Self::AnyText | Self::Variable(_), _) => narrow.excludes_empty_text(is_narrow_last),
            (Self::Literal(text), Self::Literal(other)) => text == other,
            (Self::Glob(tokens), Self::Glob(other)) => tokens == other,
            (Self::Empty, Self::Empty) => true,
            _ => false,
        }
    }

    fn excludes_empty_text(&self, is_last: bool) -> bool {
        match self {
            Self::Empty => false,
            Self::Literal(text) => !text.is_empty(),
            Self::AnyText => !is_last,
            Self::Glob(tokens) => tokens.iter().any(|token| *token != GlobToken::AnyChars),
            Self::Variable(_) | Self::Regex { .. } => true,
        }
    }

    /// Adds the variables of `text`, which must match.
    pub(super) fn capture(&self, text: SegmentText<'_>, out: &mut Variables) {
        match self {
            Self::Variable(name) => set_variable(out, name, text.encoded().to_owned()),
            Self::Regex { regex, names } => {
                let decoded = text.decoded();
                let mut matcher = regex.matcher();
                let Ok(Some(_)) = matcher.find_at(decoded.as_bytes(), 0) else { return };
                for (index, name) in names.iter().enumerate() {
                    let group = regex.group_index(&group_name(index)).and_then(|group| matcher.group(group));
                    let value = group.and_then(|(start, end)| decoded.get(start..end)).unwrap_or_default();
                    set_variable(out, name, text.encode(value));
                }
            }
            Self::Empty | Self::Literal(_) | Self::AnyText | Self::Glob(_) => {}
        }
    }

    /// Returns the names of the variables that [`capture`](Self::capture) sets.
    pub(super) fn variable_names(&self) -> &[Arc<str>] {
        match self {
            Self::Variable(name) => std::slice::from_ref(name),
            Self::Regex { names, .. } => names,
            Self::Empty | Self::Literal(_) | Self::AnyText | Self::Glob(_) => &[],
        }
    }

    /// Returns the only text that matches, if there is only one.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Self::Empty => Some(""),
            Self::Literal(literal) => Some(literal),
            Self::AnyText | Self::Glob(_) | Self::Variable(_) | Self::Regex { .. } => None,
        }
    }
}

/// Returns true if `tokens` match the whole `text`. Like the search of [`SegmentsPattern`](super::SegmentsPattern), it does not recurse: after
/// a mismatch, only the last `*` takes one more character.
fn glob(tokens: &[GlobToken], mut text: DecodedBytes<'_>) -> bool {
    let mut at = 0;
    let mut retry: Option<(usize, DecodedBytes<'_>)> = None;
    loop {
        let matched = match tokens.get(at) {
            None if text.is_at_end() => return true,
            None => false,
            Some(GlobToken::AnyChars) if at + 1 == tokens.len() => return true,
            Some(GlobToken::AnyChars) => {
                retry = Some((at + 1, text.clone()));
                true
            }
            Some(GlobToken::AnyChar) => text.skip_char(),
            Some(GlobToken::Literal(literal)) => text.skip_literal(literal),
        };
        if matched {
            at += 1;
            continue;
        }
        let Some((after_star, from)) = &mut retry else { return false };
        if !from.skip_char() {
            return false;
        }
        at = *after_star;
        text = from.clone();
    }
}
