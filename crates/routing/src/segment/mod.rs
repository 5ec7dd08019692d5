//! Segments of path patterns and labels of host patterns: parsing and matching.

mod matcher;
mod parse;
mod pattern;
mod text;

pub(crate) use self::matcher::{PatternPart, decide_segments, match_segments, split_segment};
pub(crate) use self::parse::{PatternKind, parse};
pub(crate) use self::pattern::{GlobToken, SegmentPattern};
pub(crate) use self::text::SegmentText;
