//! Lines of the files, and the lines and columns of spans.

use std::cell::{Cell, OnceCell};
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
    /// A byte and its column, from which those behind it on the same line are counted: a line may be the whole file.
    counted: Cell<(usize, usize)>,
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
    let start = span.bytes().range().start;
    let (line, column) = lines.position(lines.argument(start, span.argument).unwrap_or(start));
    (file, line, column)
}

// === impl FileLines ===

impl<'t> FileLines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { text, lines: OnceCell::new(), counted: Cell::new((0, 1)) }
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
        let (from, column) =
            Some(self.counted.get()).filter(|(from, _)| (start..=at).contains(from)).unwrap_or((start, 1));
        let column = column + self.text[from..at].chars().count();
        self.counted.set((at, column));
        (line, column)
    }

    /// Returns the position of the `number`th argument of the shortcut at `start`, if it is on the same line.
    fn argument(&self, start: usize, number: u8) -> Option<usize> {
        let (_, line) = yaml::lines(self.text.get(start..)?).next().filter(|_| number > 0)?;
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
        assert_eq!((lines.argument(13, 1), lines.argument(13, 2), lines.argument(13, 3)), (Some(15), Some(19), None));
        assert_eq!(FileLines::of("").position(0), (1, 1));
    }
}
