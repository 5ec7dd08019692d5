//! Patterns of whole paths and hosts: a list of parts, matched against the segments of a text.

use std::fmt;
use std::sync::Arc;

use super::parse::{PatternKind, parse};
use super::pattern::SegmentPattern;
use super::text::SegmentText;
use crate::decision::Decision;
use crate::error::PatternError;
use crate::request::{Variables, set_variable};

/// Pattern of all segments of a path (`/`), or of all labels of a host (`.`).
#[derive(Clone, Debug)]
pub(crate) struct SegmentsPattern<const SEPARATOR: char> {
    pub(crate) text: Box<str>,
    pub(crate) parts: Box<[PatternPart]>,
}

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
    fn variable_names(&self) -> &[Arc<str>] {
        match self {
            Self::Segment(segment) => segment.variable_names(),
            Self::AnySegments(name) => name.as_slice(),
        }
    }
}

impl<const SEPARATOR: char> SegmentsPattern<SEPARATOR> {
    const KIND: PatternKind = PatternKind::of_separator(SEPARATOR);

    /// Parses a pattern. A separator at its start is optional, and a final dot of a host makes no difference.
    pub(crate) fn parse(pattern: &str) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        let mut parts = parse(pattern, usize::from(pattern.starts_with(SEPARATOR)), Self::KIND)?;
        if Self::KIND == PatternKind::Host && matches!(parts.last(), Some(PatternPart::Segment(SegmentPattern::Empty)))
        {
            parts.pop();
        }
        Ok(Self { text: pattern.into(), parts: parts.into() })
    }

    /// Decides if the segments of `text` match; `None` has no segments. If the search finds no match but an undecided
    /// segment, the decision is `Undecided`.
    pub(crate) fn decide(&self, text: Option<&str>) -> Decision {
        self.search(text, |_, _| {})
    }

    /// Adds the variables of `text` to `out` and returns true if it matches.
    pub(crate) fn capture(&self, text: Option<&str>, out: &mut Variables) -> bool {
        // The text from the start of each part on. A final `**` ends the search, so the start after it stays `None`.
        let mut starts = vec![None; self.parts.len() + 1];
        let record = |part: usize, remaining| starts.get_mut(part).map_or((), |start| *start = remaining);
        let matched = self.search(text, record) == Decision::Yes;
        for (part, start) in self.parts.iter().zip(starts.windows(2)).filter(|_| matched) {
            if let &[from, to] = start {
                Self::capture_part(part, from, to, out);
            }
        }
        matched
    }

    /// Returns the names of the variables.
    pub(crate) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(PatternPart::variable_names).map(|name| &**name)
    }

    /// Decides if the segments of `text` match. `on_part` receives the index of a part and the remaining text each time that
    /// part is reached; the last call for an index is the one that counts.
    ///
    /// The search does not recurse. It treats an undecided segment as a mismatch. After a mismatch, only the last `**` takes
    /// one more segment. That is sufficient: the last `**` can reach every match that an earlier one could. The time is at
    /// most parts × segments.
    fn search<'a>(&self, text: Option<&'a str>, mut on_part: impl FnMut(usize, Option<&'a str>)) -> Decision {
        let mut at = 0;
        let mut remaining = text;
        let mut retry: Option<(usize, Option<&'a str>)> = None;
        let mut mismatch = Decision::No;
        loop {
            on_part(at, remaining);
            let is_last = at + 1 == self.parts.len();
            let matched = match (self.parts.get(at), remaining) {
                (None, None) => return Decision::Yes,
                (Some(PatternPart::AnySegments(_)), _) if is_last => return Decision::Yes,
                (Some(PatternPart::AnySegments(_)), _) => {
                    retry = Some((at + 1, remaining));
                    true
                }
                (Some(PatternPart::Segment(segment)), Some(text)) => {
                    let (first, rest) = split_segment(text, SEPARATOR);
                    remaining = rest;
                    let decision = segment.decide(Self::segment_text(first), is_last);
                    if decision == Decision::Undecided {
                        mismatch = decision;
                    }
                    decision == Decision::Yes
                }
                (Some(PatternPart::Segment(_)), None) | (None, Some(_)) => false,
            };
            if matched {
                at += 1;
                continue;
            }
            match &mut retry {
                Some((after, from)) if from.is_some() => {
                    *from = from.and_then(|from| split_segment(from, SEPARATOR).1);
                    at = *after;
                    remaining = *from;
                }
                _ => return mismatch,
            }
        }
    }

    /// Adds the variables of one part, which matched the text from `start` to `end`; both are suffixes of the whole text.
    fn capture_part(part: &PatternPart, start: Option<&str>, end: Option<&str>, out: &mut Variables) {
        match part {
            PatternPart::Segment(segment) => {
                if let Some(start) = start {
                    segment.capture(Self::segment_text(split_segment(start, SEPARATOR).0), out);
                }
            }
            PatternPart::AnySegments(Some(name)) => {
                let mut value = String::new();
                let mut remaining = start;
                // Suffixes of one text are equal if their lengths are.
                while remaining.map(str::len) != end.map(str::len)
                    && let Some(text) = remaining
                {
                    let (first, rest) = split_segment(text, SEPARATOR);
                    value.push(SEPARATOR);
                    value.push_str(Self::segment_text(first).encoded());
                    remaining = rest;
                }
                set_variable(out, name, value);
            }
            PatternPart::AnySegments(None) => {}
        }
    }

    fn segment_text(raw: &str) -> SegmentText<'_> {
        match Self::KIND {
            PatternKind::Path => SegmentText::of_path(raw),
            PatternKind::Host => SegmentText::of_host(raw),
        }
    }
}

/// The text decides what is parsed.
impl<const SEPARATOR: char> PartialEq for SegmentsPattern<SEPARATOR> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<const SEPARATOR: char> fmt::Display for SegmentsPattern<SEPARATOR> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits off the first segment; returns it and the text after its separator.
pub(crate) fn split_segment(text: &str, separator: char) -> (&str, Option<&str>) {
    // Separators are ASCII. For texts this short a plain loop is faster than the setup of `split_once`.
    match text.bytes().position(|byte| char::from(byte) == separator) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}
