//! One segment of a path pattern, or one label of a host pattern, and the walk over a list of them.

mod parse;
mod text;
mod walk;

use std::sync::Arc;

use tollgate_java_regex::JavaRegex;

pub(super) use self::parse::{Dialect, parse};
use self::text::Bytes;
pub(super) use self::text::Text;
pub(super) use self::walk::{Part, cut, walk};
use super::request::{Variables, set_variable};

/// What one segment has to look like.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    /// Nothing: the pattern ends in a separator.
    Empty,
    /// This text.
    Literal(Box<str>),
    /// `*`: any text; an empty one only at the end of the pattern, so that `/a/*` matches `/a/`.
    Any,
    /// Text with `?` and `*`.
    Glob(Box<[Token]>),
    /// `{name}`: any text but the empty one.
    Variable(Arc<str>),
    /// `{name:regex}`, or variables mixed with other text: any text but the empty one. The names are those of the
    /// groups `v0`, `v1`, … (see [`group_name`]).
    Regex { regex: JavaRegex, names: Box<[Arc<str>]> },
}

/// A piece of a [`Segment::Glob`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Literal(Box<str>),
    /// `?`: one character.
    One,
    /// `*`: any number of characters.
    Many,
}

/// The capture group of the variable at `index` of a segment. Nobody's own group is called this.
pub(super) fn group_name(index: usize) -> String {
    format!("tollgate_v{index}")
}

// === impl Segment ===

impl Segment {
    /// Whether `text` looks like this. `is_last` says that the pattern ends here.
    pub(super) fn matches(&self, text: Text<'_>, is_last: bool) -> bool {
        match self {
            Self::Empty => text.is_blank(),
            Self::Literal(literal) => text.equals(literal),
            Self::Any => is_last || !text.is_empty(),
            Self::Glob(tokens) => glob(tokens, text.bytes()),
            Self::Variable(_) => !text.is_empty(),
            // What takes too long to say does not match, as an exception in a Spring predicate.
            Self::Regex { regex, .. } => {
                !text.is_empty() && regex.is_match(text.decoded().as_bytes()).unwrap_or_default()
            }
        }
    }

    /// Adds the variables that `text`, which matches, gives values to.
    pub(super) fn capture(&self, text: Text<'_>, out: &mut Variables) {
        match self {
            Self::Variable(name) => set_variable(out, name, text.encoded().to_owned()),
            Self::Regex { regex, names } => {
                let decoded = text.decoded();
                let mut matcher = regex.matcher();
                let Ok(Some(_)) = matcher.find_at(decoded.as_bytes(), 0) else { return };
                for (index, name) in names.iter().enumerate() {
                    let group = regex.group(&group_name(index)).and_then(|group| matcher.group(group));
                    let value = group.and_then(|(start, end)| decoded.get(start..end)).unwrap_or_default();
                    set_variable(out, name, text.encode(value));
                }
            }
            Self::Empty | Self::Literal(_) | Self::Any | Self::Glob(_) => {}
        }
    }

    /// The names of the variables that it gives values to.
    pub(super) fn variables(&self) -> &[Arc<str>] {
        match self {
            Self::Variable(name) => std::slice::from_ref(name),
            Self::Regex { names, .. } => names,
            Self::Empty | Self::Literal(_) | Self::Any | Self::Glob(_) => &[],
        }
    }

    /// The text that this segment is equal to, if it is no pattern.
    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Empty => Some(""),
            Self::Literal(literal) => Some(literal),
            Self::Any | Self::Glob(_) | Self::Variable(_) | Self::Regex { .. } => None,
        }
    }
}

/// Matches without recursion: on a mismatch only the last `*` takes one character more, since what it took up to there
/// leaves every earlier `*` as well placed as any other division would.
fn glob(tokens: &[Token], mut text: Bytes<'_>) -> bool {
    let mut at = 0;
    let mut retry: Option<(usize, Bytes<'_>)> = None;
    loop {
        let matched = match tokens.get(at) {
            None if text.is_at_end() => return true,
            None => false,
            Some(Token::Many) if at + 1 == tokens.len() => return true,
            Some(Token::Many) => {
                retry = Some((at + 1, text.clone()));
                true
            }
            Some(Token::One) => text.skip_char(),
            Some(Token::Literal(literal)) => text.skip_literal(literal),
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
