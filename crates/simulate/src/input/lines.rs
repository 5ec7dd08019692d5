//! Reader of lines, and searches in their bytes, several at a time. A line that lies completely in the reader's buffer is not
//! copied.

use std::io::{self, BufRead, Read};

/// Longest line in bytes.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;

/// Reader of lines.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    /// Bytes of the latest line in the buffer of the reader.
    used: usize,
    /// Line that was not whole in the buffer.
    copied: Vec<u8>,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'l> {
    /// Text without its end.
    Text(&'l [u8]),
    /// A line of more than [`MAX_LINE_BYTES`], which was skipped.
    TooLong,
    /// End of the file.
    End,
}

impl Lines {
    pub(super) fn new(reader: Box<dyn BufRead>) -> Self {
        Self { reader, used: 0, copied: Vec::new() }
    }

    /// Reads the next line.
    pub(super) fn next(&mut self) -> io::Result<Line<'_>> {
        self.reader.consume(std::mem::take(&mut self.used));
        if let Some(length) = find_end(self.reader.fill_buf()?) {
            self.used = length + 1;
            return Ok(Line::Text(self.reader.fill_buf()?.get(..length).unwrap_or_default()));
        }
        self.copied.clear();
        (&mut self.reader).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut self.copied)?;
        let is_ended = self.copied.pop_if(|byte| *byte == b'\n').is_some();
        if !is_ended && self.copied.len() > MAX_LINE_BYTES {
            self.reader.skip_until(b'\n')?;
            return Ok(Line::TooLong);
        }
        Ok(if is_ended || !self.copied.is_empty() { Line::Text(&self.copied) } else { Line::End })
    }
}

/// Returns the position of the first end of a line.
pub(super) fn find_end(bytes: &[u8]) -> Option<usize> {
    // Blocks of one size, which the compiler tests 16 bytes at a time.
    const BLOCK: usize = 64;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let has_end = |block: &[u8; BLOCK]| block.iter().fold(0, |found, byte| found | u8::from(*byte == b'\n')) != 0;
    let start = blocks.iter().position(has_end).unwrap_or(blocks.len()) * BLOCK;
    bytes[start..].iter().position(|byte| *byte == b'\n').map(|position| start + position)
}

/// Returns true if a line has no escapes, and no control characters, which JSON forbids in texts.
pub(super) fn is_plain(line: &[u8]) -> bool {
    // Blocks of one size, of which the compiler takes 16 bytes at a time: the least byte, and the least difference from a
    // backslash.
    const BLOCK: usize = 32;
    let (blocks, rest) = line.as_chunks::<BLOCK>();
    let (mut least, mut nearest) = ([u8::MAX; BLOCK], [u8::MAX; BLOCK]);
    for block in blocks {
        for at in 0..BLOCK {
            least[at] = least[at].min(block[at]);
            nearest[at] = nearest[at].min(block[at] ^ b'\\');
        }
    }
    least.iter().chain(rest).all(|byte| *byte >= 0x20) && !nearest.contains(&0) && !rest.contains(&b'\\')
}

/// Returns the position of the first quote from `at` on. Eight bytes are tested at a time: names and values are short.
pub(super) fn find_quote(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        // A byte of zero is a quote. The lowest zero byte sets the lowest top bit.
        let word = u64::from_le_bytes(*chunk) ^ QUOTES;
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes.get(at..)?.iter().position(|byte| *byte == b'"').map(|position| at + position)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{BufReader, Cursor};

    use super::*;

    #[test]
    fn lines_are_the_same_for_every_size_of_the_buffer() {
        let text = format!("\n{}\n\r\n{}\n\u{e9}\nend", "a".repeat(63), "b".repeat(200));
        let expected: Vec<&[u8]> = text.as_bytes().split(|byte| *byte == b'\n').collect();
        for capacity in 1..300 {
            let mut lines = Lines::new(Box::new(BufReader::with_capacity(capacity, Cursor::new(text.clone()))));
            for line in &expected {
                assert_eq!(lines.next().unwrap(), Line::Text(line), "{capacity}");
            }
            assert_eq!((lines.next().unwrap() == Line::End, lines.next().unwrap() == Line::End), (true, true));
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let [longest, too_long] = [0, 1].map(|more| "x".repeat(MAX_LINE_BYTES + more));
        let text = format!("{longest}\n{too_long}\nend\n");
        let mut lines = Lines::new(Box::new(BufReader::new(Cursor::new(text))));
        assert_eq!(lines.next().unwrap(), Line::Text(longest.as_bytes()));
        assert_eq!((lines.next().unwrap() == Line::TooLong, lines.next().unwrap()), (true, Line::Text(b"end")));
    }

    #[test]
    fn the_first_quote_is_found() {
        for length in 0..40 {
            for at in 0..=length {
                let text = format!("{}\"{}\"", "#".repeat(at), "\u{a2}!".repeat(length - at));
                assert_eq!(find_quote(text.as_bytes(), 0), Some(at), "{text}");
                assert_eq!(find_quote(text.as_bytes(), at + 1), Some(text.len() - 1), "{text}");
            }
        }
        assert_eq!(find_quote(b"no quote at all", 3), None);
    }

    #[test]
    fn a_line_with_an_escape_or_a_control_character_is_not_plain() {
        for length in [0, 1, 31, 32, 33, 64, 100] {
            let plain = "\u{e9}\"~ ".repeat(length);
            assert!(is_plain(plain.as_bytes()), "{length}");
            for at in 0..=plain.len() {
                for other in [b'\\', 0, 0x1F] {
                    let mut line = plain.clone().into_bytes();
                    line.insert(at, other);
                    assert!(!is_plain(&line), "{other} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn the_first_end_of_a_line_is_found() {
        for at in 0..200 {
            let text = format!("{}\n{}\n", "a".repeat(at), "b".repeat(70));
            assert_eq!((find_end(text.as_bytes()), find_end(&text.as_bytes()[..at])), (Some(at), None));
        }
    }
}
