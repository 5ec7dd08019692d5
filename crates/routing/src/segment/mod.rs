//! Segments of path patterns and labels of host patterns: parsing and matching.

mod matcher;
mod parse;
mod pattern;
mod text;

pub(crate) use self::matcher::{PatternPart, SegmentsPattern, split_segment};
pub(crate) use self::pattern::{GlobToken, SegmentPattern};
pub(crate) use self::text::SegmentText;
