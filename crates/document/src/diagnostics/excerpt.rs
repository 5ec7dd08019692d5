//! Excerpts of long lines.

use crate::characters::is_unsafe;

/// Maximum number of characters of an excerpt, without the marks of what was cut.
const MAX: usize = 160;
/// Mark of a part that was cut.
const CUT: char = '…';
/// Character in place of one that is not shown.
const STAND_IN: char = '\u{fffd}';

/// Returns the part of `line` around `column`, counted from 0, and the column in that part. A short line is returned
/// in full. A character that a terminal would not show as it is has a stand-in, so that columns stay.
pub(super) fn around(line: &[char], column: usize) -> (String, usize) {
    let length = line.len();
    let shown = |c: &char| if is_unsafe(*c) && *c != '\t' { STAND_IN } else { *c };
    if length <= MAX {
        return (line.iter().map(shown).collect(), column);
    }
    let start = column.saturating_sub(MAX / 2).min(length - MAX);
    let mut part = String::new();
    if start > 0 {
        part.push(CUT);
    }
    part.extend(line.iter().skip(start).take(MAX).map(shown));
    if start + MAX < length {
        part.push(CUT);
    }
    (part, column - start + usize::from(start > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let line: Vec<char> = (0..1000).map(|at| if at == 500 { 'ä' } else { 'x' }).collect();
        for (column, length) in
            [(0, 161), (80, 161), (81, 162), (500, 162), (919, 162), (920, 161), (999, 161), (1000, 161)]
        {
            let (part, shown) = around(&line, column);
            assert_eq!(part.chars().count(), length, "{column}");
            assert_eq!(part.chars().nth(shown), line.get(column).copied(), "{column}");
        }
        assert_eq!(around(&line, 500).0.chars().nth(81), Some('ä'));
        assert_eq!(around(&['x'; MAX], 9), ("x".repeat(MAX), 9));
    }

    #[test]
    fn characters_that_a_terminal_does_not_show_have_a_stand_in() {
        let line: Vec<char> = "a\u{202e}b\u{200b}\u{1b}[31m\tä".chars().collect();
        assert_eq!(around(&line, 2), ("a\u{fffd}b\u{fffd}\u{fffd}[31m\tä".to_owned(), 2));
        let line: Vec<char> = "\u{feff}".repeat(1_000).chars().collect();
        assert!(!around(&line, 500).0.contains('\u{feff}'));
    }
}
