//! Lines of the files, and the lines and columns of spans.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

use crate::diagnostics::text::{Format, SourceText};
use crate::yaml::{self, Span};

/// File, line and column; line and column are 0 if they are unknown.
pub(super) type At = (usize, usize, usize);

/// Text of a file by its lines, which are found when they are needed.
pub(super) struct FileLines<'t> {
    text: &'t str,
    /// Position of each line, with the line.
    lines: OnceCell<Vec<(usize, &'t str)>>,
    /// Number of characters in the first kilobyte of a line, in the first two, and so on, by the start of the line. A line
    /// may be the whole file.
    counted: RefCell<HashMap<usize, Vec<usize>>>,
    /// Positions of arguments by the start and the number, as a value may have ten thousand mistakes.
    arguments: RefCell<HashMap<(usize, u8), Option<usize>>>,
}

/// Returns the lines of each file.
pub(super) fn of_files(text: &SourceText) -> Vec<FileLines<'_>> {
    text.files.iter().map(|file| FileLines::of(&file.text)).collect()
}

/// Returns the place of `span` in the files of `text`, whose `lines` are found.
pub(super) fn place(text: &SourceText, lines: &[FileLines<'_>], span: Span) -> At {
    let file = span.file();
    let has_lines = text.files.get(file).is_some_and(|file| matches!(file.format, Format::Yaml | Format::Properties));
    let Some(lines) = lines.get(file).filter(|_| has_lines) else { return (file, 0, 0) };
    let value = span.bytes().range();
    let start = value.start;
    let mut arguments = lines.arguments.borrow_mut();
    let argument = arguments.entry((start, span.argument)).or_insert_with(|| lines.argument(value, span.argument));
    let (line, column) = lines.position(argument.unwrap_or(start));
    (file, line, column)
}

/// Bytes whose characters are counted together.
const KILOBYTE: usize = 1024;

/// Returns true for a byte of UTF-8 that begins no character.
fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

// === impl FileLines ===

impl<'t> FileLines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { text, lines: OnceCell::new(), counted: RefCell::default(), arguments: RefCell::default() }
    }

    /// Returns the line at `at`, from 0; an empty one if there is none.
    pub(super) fn line(&self, at: usize) -> &'t str {
        self.all().get(at).map_or("", |(_, line)| line)
    }

    /// Returns the bytes of the line at `at`, from 0; none if there is no such line.
    pub(super) fn bytes(&self, at: usize) -> Range<usize> {
        self.all().get(at).map_or(0..0, |(start, line)| *start..start + line.len())
    }

    /// Returns the number of lines.
    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    fn all(&self) -> &[(usize, &'t str)] {
        self.lines.get_or_init(|| yaml::lines(self.text).collect())
    }

    /// Returns the line and the column of a byte, both 1-based.
    fn position(&self, at: usize) -> (usize, usize) {
        let at = if self.text.is_char_boundary(at) { at } else { self.text.len() };
        let lines = self.all();
        let line = lines.partition_point(|(start, _)| *start <= at).max(1);
        let start = lines.get(line - 1).map_or(0, |(start, _)| *start);
        if at > start && at == self.text.len() && self.text.ends_with(['\n', '\r']) {
            return (line + 1, 1);
        }
        (line, self.characters(start, at) + 1)
    }

    /// Returns the number of characters from the start of a line to a byte of it.
    fn characters(&self, start: usize, at: usize) -> usize {
        let count = |bytes: &[u8]| {
            #[cfg(debug_assertions)]
            crate::steps::count();
            bytes.iter().filter(|byte| !is_continuation(**byte)).count()
        };
        let bytes = &self.text.as_bytes()[start..at];
        let mut counted = self.counted.borrow_mut();
        let counted = counted.entry(start).or_default();
        for kilobyte in bytes.chunks_exact(KILOBYTE).skip(counted.len()) {
            let sum = counted.last().copied().unwrap_or_default() + count(kilobyte);
            counted.push(sum);
        }
        let kilobytes = bytes.len() / KILOBYTE;
        let before = kilobytes.checked_sub(1).and_then(|last| counted.get(last)).copied().unwrap_or_default();
        before + count(&bytes[kilobytes * KILOBYTE..])
    }

    /// Returns the position of the `number`th argument of the shortcut in the bytes `value`, if it is on their first line.
    /// Reads no further than that value: a line may have a hundred thousand of them.
    fn argument(&self, value: Range<usize>, number: u8) -> Option<usize> {
        let start = value.start;
        let value = self.text.get(value).filter(|_| number > 0)?;
        #[cfg(debug_assertions)]
        (0..=value.len() / KILOBYTE).for_each(|_| crate::steps::count());
        let (_, line) = yaml::lines(value).next()?;
        let mut end = 0;
        for separator in std::iter::once('=').chain(std::iter::repeat(',')).take(number.into()) {
            end += line.get(end..)?.find(separator)? + 1;
        }
        let rest = line.get(end..)?;
        Some(start + end + rest.len() - rest.trim_start().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_the_end_is_a_line_of_its_own() {
        let lines = FileLines::of("a: ä b\r\n\nc: X=1,  2\n");
        for (at, position) in [(0, (1, 1)), (5, (1, 5)), (9, (2, 1)), (10, (3, 1)), (21, (4, 1)), (99, (4, 1))] {
            assert_eq!(lines.position(at), position, "{at}");
        }
        assert_eq!((lines.count(), lines.line(0), lines.bytes(2)), (3, "a: ä b", 10..20));
        let argument = |number| lines.argument(13..20, number);
        assert_eq!((argument(1), argument(2), argument(3)), (Some(15), Some(19), None));
        assert_eq!(FileLines::of("").position(0), (1, 1));
        let text = "ä".repeat(3_000);
        let lines = FileLines::of(&text);
        for column in [2_999, 1, 1_025, 512, 513, 514, 2_048, 0] {
            assert_eq!(lines.position(2 * column), (1, column + 1));
        }
    }
}
