//! The walk of a pattern's parts over the segments of a text.

use std::sync::Arc;

use super::Segment;

/// One part of a pattern.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// One segment.
    One(Segment),
    /// `**` or `{*name}`: any number of segments.
    Any(Option<Arc<str>>),
}

impl Part {
    /// The names of the variables that it gives values to.
    pub(crate) fn variables(&self) -> &[Arc<str>] {
        match self {
            Self::One(segment) => segment.variables(),
            Self::Any(name) => name.as_slice(),
        }
    }
}

/// Whether `parts` match the segments of `text`, which `separator` stands between; no text has no segment.
///
/// `matches` decides about one segment; its last argument says that the pattern ends there. `arrived` is told the index
/// of each part and the text left when the walk reaches it, again when the walk comes back: the last word counts.
///
/// There is no recursion and no choice to undo but the last `**`'s (see [`super::glob`]), so the time is at most the
/// number of parts times the number of segments.
pub(crate) fn walk<'a>(
    parts: &[Part],
    text: Option<&'a str>,
    separator: char,
    matches: impl Fn(&Segment, &'a str, bool) -> bool,
    mut arrived: impl FnMut(usize, Option<&'a str>),
) -> bool {
    let mut at = 0;
    let mut left = text;
    let mut retry: Option<(usize, Option<&'a str>)> = None;
    loop {
        arrived(at, left);
        let is_last = at + 1 == parts.len();
        let matched = match (parts.get(at), left) {
            (None, None) => return true,
            (Some(Part::Any(_)), _) if is_last => return true,
            (Some(Part::Any(_)), _) => {
                retry = Some((at + 1, left));
                true
            }
            (Some(Part::One(segment)), Some(here)) => {
                let (first, rest) = cut(here, separator);
                left = rest;
                matches(segment, first, is_last)
            }
            (Some(Part::One(_)), None) | (None, Some(_)) => false,
        };
        if matched {
            at += 1;
            continue;
        }
        match &mut retry {
            Some((after, from)) if from.is_some() => {
                *from = from.and_then(|from| cut(from, separator).1);
                at = *after;
                left = *from;
            }
            _ => return false,
        }
    }
}

/// The first segment, and what follows its separator.
pub(crate) fn cut(text: &str, separator: char) -> (&str, Option<&str>) {
    // Separators are ASCII. Over texts as short as these a plain loop beats the search that `split_once` sets up.
    match text.bytes().position(|byte| char::from(byte) == separator) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}
