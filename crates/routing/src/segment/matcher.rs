//! Matching a list of pattern parts against the segments of a text.

use std::cell::Cell;
use std::sync::Arc;

use super::pattern::SegmentPattern;
use crate::decision::Decision;

/// One part of a pattern.
#[derive(Clone, Debug)]
pub(crate) enum PatternPart {
    /// One segment.
    Segment(SegmentPattern),
    /// `**` or `{*name}`: any number of segments.
    AnySegments(Option<Arc<str>>),
}

impl PatternPart {
    /// Returns the names of the variables that this part sets.
    pub(crate) fn variable_names(&self) -> &[Arc<str>] {
        match self {
            Self::Segment(segment) => segment.variable_names(),
            Self::AnySegments(name) => name.as_slice(),
        }
    }
}

/// Returns true if `parts` match the segments of `text`, which `separator` divides. `None` has no segments.
///
/// `matches` tests one segment; its last argument is true at the end of the pattern. `on_part` receives the index of a
/// part and the remaining text each time that part is reached; the last call for an index is the one that counts.
///
/// The search does not recurse. After a mismatch, only the last `**` takes one more segment. That is sufficient: the last
/// `**` can reach every match that an earlier one could. The time is at most parts × segments.
pub(crate) fn match_segments<'a>(
    parts: &[PatternPart],
    text: Option<&'a str>,
    separator: char,
    matches: impl Fn(&SegmentPattern, &'a str, bool) -> bool,
    mut on_part: impl FnMut(usize, Option<&'a str>),
) -> bool {
    let mut at = 0;
    let mut remaining = text;
    let mut retry: Option<(usize, Option<&'a str>)> = None;
    loop {
        on_part(at, remaining);
        let is_last = at + 1 == parts.len();
        let matched = match (parts.get(at), remaining) {
            (None, None) => return true,
            (Some(PatternPart::AnySegments(_)), _) if is_last => return true,
            (Some(PatternPart::AnySegments(_)), _) => {
                retry = Some((at + 1, remaining));
                true
            }
            (Some(PatternPart::Segment(segment)), Some(text)) => {
                let (first, rest) = split_segment(text, separator);
                remaining = rest;
                matches(segment, first, is_last)
            }
            (Some(PatternPart::Segment(_)), None) | (None, Some(_)) => false,
        };
        if matched {
            at += 1;
            continue;
        }
        match &mut retry {
            Some((after, from)) if from.is_some() => {
                *from = from.and_then(|from| split_segment(from, separator).1);
                at = *after;
                remaining = *from;
            }
            _ => return false,
        }
    }
}

/// Matches as [`match_segments`] does, with segments that may be undecided. The search treats an undecided segment as a
/// mismatch. If it then finds no match, the decision is `Undecided`.
pub(crate) fn decide_segments<'a>(
    parts: &[PatternPart],
    text: Option<&'a str>,
    separator: char,
    decide: impl Fn(&SegmentPattern, &'a str, bool) -> Decision,
) -> Decision {
    let has_undecided = Cell::new(false);
    let matches = |segment: &SegmentPattern, text, is_last| match decide(segment, text, is_last) {
        Decision::Yes => true,
        Decision::No => false,
        Decision::Undecided => {
            has_undecided.set(true);
            false
        }
    };
    let matched = match_segments(parts, text, separator, matches, |_, _| {});
    if !matched && has_undecided.get() { Decision::Undecided } else { matched.into() }
}

/// Splits off the first segment; returns it and the text after its separator.
pub(crate) fn split_segment(text: &str, separator: char) -> (&str, Option<&str>) {
    // Separators are ASCII. For texts this short a plain loop is faster than the setup of `split_once`.
    match text.bytes().position(|byte| char::from(byte) == separator) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}
