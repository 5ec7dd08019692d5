//! Positions that the parser does not have.

use std::borrow::Cow;
use std::ops::Range;

use granit_parser::ScalarStyle;

/// Returns the position of a block scalar from that of its text: it begins with `|` or `>`, behind `end`, the end of the event
/// before it.
pub(super) fn block_scalar(text: &str, end: usize, content: Range<usize>) -> Range<usize> {
    let head = text.get(end..content.start).and_then(|head| head.find(['|', '>']));
    head.map_or(content.start, |head| end + head)..content.end
}

/// Returns the start of a list in the column of its key: the hyphen of its first item, behind `end`. The parser has the
/// `first` item's own position.
pub(super) fn list_below_key(text: &str, end: usize, first: usize) -> usize {
    let before = text.get(end..first).unwrap_or_default().trim_end();
    if before.ends_with('-') { end + before.len() - 1 } else { first }
}

/// Returns the position of a value that is not there, whose key or hyphen ends at `at`: behind the colon of its key; in flow
/// style that of the next sign.
pub(super) fn nothing(text: &str, at: usize, is_in_map: bool, is_flow: bool) -> Range<usize> {
    let mut rest = text.get(at..).unwrap_or_default();
    if is_in_map {
        rest = rest.trim_start_matches([' ', '\t']).strip_prefix(':').unwrap_or(rest);
    }
    if is_flow {
        rest = rest.trim_start();
    }
    let at = text.len() - rest.len();
    at..at
}

/// Returns the line and the column of a position, both 1-based.
pub(super) fn line_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Returns the value of a scalar that ends at `end` as it is in the text: the parser adds a line break to a block scalar where
/// the text ends without one.
pub(super) fn without_added_break<'v>(text: &str, value: Cow<'v, str>, style: ScalarStyle, end: usize) -> Cow<'v, str> {
    let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
    let is_last = || text.get(end..).is_some_and(|rest| rest.trim().is_empty());
    let last_line = || text.rsplit(['\n', '\r']).next().unwrap_or_default();
    match value.strip_suffix('\n') {
        Some(whole) if is_block && is_last() && !last_line().trim().is_empty() => Cow::Owned(whole.to_owned()),
        _ => value,
    }
}
