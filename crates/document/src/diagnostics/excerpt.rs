//! Excerpts of long lines.

/// Maximum number of characters of an excerpt, without the marks of what was cut.
const MAX: usize = 160;
/// Mark of a part that was cut.
const CUT: char = '…';

/// Returns the part of `line` around `column`, counted from 0, and the column in that part. A short line is returned
/// in full.
pub(super) fn around(line: &[char], column: usize) -> (String, usize) {
    let length = line.len();
    if length <= MAX {
        return (line.iter().collect(), column);
    }
    let start = column.saturating_sub(MAX / 2).min(length - MAX);
    let mut part = String::new();
    if start > 0 {
        part.push(CUT);
    }
    part.extend(line.iter().skip(start).take(MAX));
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
}
