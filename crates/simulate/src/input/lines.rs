//! Reader of lines, and searches in their bytes, several at a time. A line that lies completely in the reader's buffer is not
//! copied.

use std::io::{self, BufRead, Read};

use memchr::memchr;

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
        if let Some(length) = memchr(b'\n', self.reader.fill_buf()?) {
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

/// Returns true if a line has no escapes, and no control characters, which JSON forbids in texts.
pub(super) fn is_plain(line: &[u8]) -> bool {
    // All bytes are tested, 16 at a time.
    line.iter().fold(true, |is_plain, byte| is_plain & (*byte >= 0x20) & (*byte != b'\\'))
}

/// Returns the position of the first quote from `at` on.
pub(super) fn find_quote(bytes: &[u8], at: usize) -> Option<usize> {
    memchr(b'"', bytes.get(at..)?).map(|position| at + position)
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
}
