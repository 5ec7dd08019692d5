//! Positions of nodes in the texts that they come from, and positions that the parser does not have.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of the next node. A tree has far fewer nodes than there are numbers, so a number that is used again, after all
/// of them, belongs to a tree that is gone.
static NEXT_NODE: AtomicU32 = AtomicU32::new(1);

/// Bytes of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bytes {
    /// First byte.
    pub start: u32,
    /// Byte behind the last one.
    pub end: u32,
}

/// Position of a node: the file, the bytes of its value and of its key. It says, too, which node it is: nodes that come
/// from the same bytes, such as those of a dotted key or of an alias, have different numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Number of the node; 0 for the first document.
    pub node: u32,
    file: u16,
    /// 1-based index of an argument of a shortcut (`Name=a,b`); 0 for the whole node.
    pub argument: u8,
    /// True for the key that leads to the node, false for its value.
    pub key: bool,
    key_bytes: Bytes,
    value_bytes: Bytes,
}

impl Bytes {
    /// No bytes, at the beginning.
    pub const NONE: Self = Self { start: 0, end: 0 };

    /// Returns `range` as bytes; ends beyond 4 GB are cut.
    pub fn new(range: Range<usize>) -> Self {
        let cut = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: cut(range.start), end: cut(range.end) }
    }

    /// Returns the bytes as indices of a text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl Span {
    /// The first document.
    pub const ROOT: Self =
        Self { node: 0, file: 0, argument: 0, key: false, key_bytes: Bytes::NONE, value_bytes: Bytes::NONE };

    /// Returns the span of a new node without a key.
    pub fn new(file: usize, bytes: Bytes) -> Self {
        let file = u16::try_from(file).unwrap_or(u16::MAX);
        Self { file, key_bytes: bytes, value_bytes: bytes, ..Self::ROOT }.again()
    }

    /// Returns the span of a new node at the same place: a dotted key becomes several nodes.
    pub fn again(self) -> Self {
        Self { node: NEXT_NODE.fetch_add(1, Ordering::Relaxed), ..self }
    }

    /// Returns this span with the bytes of the key that leads to the node.
    pub fn keyed(self, key_bytes: Bytes) -> Self {
        Self { key_bytes, ..self }
    }

    /// Returns this span with a value that ends at `end`.
    pub fn until(self, end: usize) -> Self {
        Self { value_bytes: Bytes::new(self.value_bytes.range().start..end), ..self }
    }

    /// Returns the span of the argument at `position` (0-based) of this shortcut.
    pub fn argument(self, position: usize) -> Self {
        Self { argument: u8::try_from(position + 1).unwrap_or(0), ..self }
    }

    /// Returns the span of the key that leads to this node.
    pub fn key(self) -> Self {
        Self { key: true, ..self }
    }

    /// Returns true for [`ROOT`](Self::ROOT).
    pub fn is_root(self) -> bool {
        self.node == Self::ROOT.node
    }

    /// Returns the index of the file.
    pub fn file(self) -> usize {
        self.file.into()
    }

    /// Returns the bytes of the key or of the value, as the span says.
    pub fn bytes(self) -> Bytes {
        if self.key { self.key_bytes } else { self.value_bytes }
    }

    /// Returns true if the value contains that of `inner`.
    pub fn contains(self, inner: Self) -> bool {
        let (outer, inner_bytes) = (self.value_bytes, inner.value_bytes);
        self.file == inner.file && outer.start <= inner_bytes.start && inner_bytes.end <= outer.end
    }

    /// Returns the span as numbers, for the data model of serde.
    pub fn pack(self) -> [u64; 3] {
        let pair = |bytes: Bytes| u64::from(bytes.start) | u64::from(bytes.end) << 32;
        let flags = u64::from(self.file) | u64::from(self.argument) << 16 | u64::from(self.key) << 24;
        [u64::from(self.node) | flags << 32, pair(self.key_bytes), pair(self.value_bytes)]
    }

    /// Undoes [`pack`](Self::pack).
    pub fn unpack([node, key_bytes, value_bytes]: [u64; 3]) -> Self {
        let pair = |packed: u64| {
            let [s0, s1, s2, s3, end @ ..] = packed.to_le_bytes();
            Bytes { start: u32::from_le_bytes([s0, s1, s2, s3]), end: u32::from_le_bytes(end) }
        };
        let [n0, n1, n2, n3, f0, f1, argument, key] = node.to_le_bytes();
        Self {
            node: u32::from_le_bytes([n0, n1, n2, n3]),
            file: u16::from_le_bytes([f0, f1]),
            argument,
            key: key != 0,
            key_bytes: pair(key_bytes),
            value_bytes: pair(value_bytes),
        }
    }
}

/// Spans that may contain others.
#[derive(Debug, Default)]
pub struct Spans {
    /// File and begin of each, sorted, with the last end of those of the same file up to it.
    ends: Vec<(usize, u32, u32)>,
}

impl Spans {
    /// Takes the values of `spans`.
    pub fn of(spans: impl Iterator<Item = Span>) -> Self {
        let mut ends: Vec<_> = spans.map(|span| (span.file(), span.value_bytes.start, span.value_bytes.end)).collect();
        ends.sort_unstable();
        for at in 1..ends.len() {
            if ends[at].0 == ends[at - 1].0 {
                ends[at].2 = ends[at].2.max(ends[at - 1].2);
            }
        }
        Self { ends }
    }

    /// Returns true if one of them [contains](Span::contains) `inner`.
    pub fn contain(&self, inner: Span) -> bool {
        let Bytes { start, end } = inner.value_bytes;
        let before = self.ends.partition_point(|(file, begin, _)| (*file, *begin) <= (inner.file(), start));
        let last = before.checked_sub(1).and_then(|last| self.ends.get(last));
        last.is_some_and(|(file, _, last_end)| *file == inner.file() && end <= *last_end)
    }
}

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
    fn a_span_survives_the_data_model_of_serde() {
        let span = Span::new(65_535, Bytes::new(10..usize::MAX)).keyed(Bytes::new(8..9));
        for span in [span, span.key(), span.argument(254), Span::ROOT] {
            assert_eq!(Span::unpack(span.pack()), span);
        }
    }

    #[test]
    fn the_spans_of_several_files_contain_others() {
        let span = |file, range| Span::new(file, Bytes::new(range));
        let all = [span(1, 10..20), span(0, 5..50), span(0, 6..7), span(1, 30..31)];
        let spans = Spans::of(all.into_iter());
        for (file, range) in [
            (0, 5..50),
            (0, 8..9),
            (0, 4..6),
            (0, 49..51),
            (1, 10..20),
            (1, 20..20),
            (1, 21..22),
            (1, 30..31),
            (2, 5..6),
        ] {
            let inner = span(file, range);
            assert_eq!(spans.contain(inner), all.iter().any(|one| one.contains(inner)), "{inner:?}");
        }
    }

    #[test]
    fn lines_end_with_lf_cr_or_both() {
        let text = "a\nb\rc\r\n\r\r\n\nd";
        let expected = [(0, "a"), (2, "b"), (4, "c"), (7, ""), (8, ""), (10, ""), (11, "d")];
        assert_eq!(lines(text).collect::<Vec<_>>(), expected);
        assert_eq!(lines("a\r").collect::<Vec<_>>(), [(0, "a")]);
        assert_eq!([0, 2, 3, 4, 12].map(|at| line_column(text, at)), [(1, 1), (2, 1), (2, 2), (3, 1), (7, 2)]);
    }
}
