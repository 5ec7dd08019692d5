//! Tables for terminals.

/// Returns `text` without control characters, which a terminal would execute: clients choose key ids.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Returns `rows` as a table with aligned columns. Columns with an index in `right` are aligned to the right.
#[must_use]
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let padding = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            if right.contains(&column) { format!("{padding}{cell}") } else { format!("{cell}{padding}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_show_no_control_characters() {
        let row = |cells: &[&str]| cells.iter().map(|cell| printable(cell)).collect::<Vec<_>>();
        let rows = [row(&["KEY", "COUNT"]), row(&["a\u{1b}[2J\n", "5"]), row(&["müller", "1000"])];
        assert_eq!(table(&rows, &[1]), "KEY           COUNT\na\\u{1b}[2J\\n      5\nmüller         1000\n");
    }
}
