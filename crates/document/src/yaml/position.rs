//! Positions that the parser does not have.

use std::ops::Range;

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

/// Returns the lines of `text`, each with its position. A line ends with LF, CR or both, as in YAML and in properties.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let (start, rest) = (next, text.get(next..).filter(|rest| !rest.is_empty())?);
        let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
        next += length + if rest[length..].starts_with("\r\n") { 2 } else { 1 };
        Some((start, &rest[..length]))
    })
}

/// Returns the line and the column of a position, both 1-based.
pub(super) fn line_column(text: &str, at: usize) -> (usize, usize) {
    let before = lines(text).take_while(|(start, _)| *start <= at).enumerate().last();
    let (line, start) = before.map_or((0, 0), |(line, (start, _))| (line, start));
    (line + 1, text.get(start..at).map_or(0, |before| before.chars().count()) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_lf_cr_or_both() {
        let text = "a\nb\rc\r\n\r\r\n\nd";
        let expected = [(0, "a"), (2, "b"), (4, "c"), (7, ""), (8, ""), (10, ""), (11, "d")];
        assert_eq!(lines(text).collect::<Vec<_>>(), expected);
        assert_eq!(lines("a\r").collect::<Vec<_>>(), [(0, "a")]);
        assert_eq!([0, 2, 3, 4, 12].map(|at| line_column(text, at)), [(1, 1), (2, 1), (2, 2), (3, 1), (7, 2)]);
    }
}
