//! Lines of a file, and their structure as the indentation shows it: found once for all diagnostics.

use std::cell::OnceCell;

/// Lines of a file.
pub(in crate::diagnostics) struct FileLines<'t> {
    lines: Vec<&'t str>,
    /// Line of the YAML key above each line, if its value contains the line.
    parents: OnceCell<Vec<Option<usize>>>,
    blocks: OnceCell<Blocks>,
}

/// Blocks: lines of one column, without a line further left between them.
#[derive(Default)]
struct Blocks {
    /// Block of each line; `None` for empty lines and comments.
    of_line: Vec<Option<usize>>,
    all: Vec<Block>,
}

#[derive(Default)]
struct Block {
    lines: Vec<usize>,
    /// Number of lines with a secret name.
    secrets: OnceCell<usize>,
}

/// Indentation of lines that are followed by deeper ones only.
struct Level {
    indentation: usize,
    /// The last line with this indentation.
    last: usize,
    /// The last one that is no item of a list.
    last_key: Option<usize>,
}

// === impl FileLines ===

impl<'t> FileLines<'t> {
    pub(in crate::diagnostics) fn of(text: &'t str) -> Self {
        Self { lines: text.lines().collect(), parents: OnceCell::new(), blocks: OnceCell::new() }
    }

    /// Returns the line at `at`, from 0; an empty one if there is none.
    pub(in crate::diagnostics) fn line(&self, at: usize) -> &'t str {
        self.lines.get(at).copied().unwrap_or_default()
    }

    /// Returns all lines.
    pub(in crate::diagnostics) fn all(&self) -> &[&'t str] {
        &self.lines
    }

    /// Returns the nearest line above the line at `at` with less indentation; above an item of a list also a line with the
    /// same indentation that is no item.
    pub(super) fn parent(&self, at: usize) -> Option<&'t str> {
        let parents = self.parents.get_or_init(|| parents(&self.lines));
        parents.get(at).copied().flatten().map(|parent| self.line(parent))
    }

    /// Returns true if another line of the same block has a secret name, as `name: X-Token` beside `value: abc` has.
    /// `names_secret` is always the same function.
    pub(super) fn has_secret_sibling(&self, at: usize, names_secret: fn(&str) -> bool) -> bool {
        let blocks = self.blocks.get_or_init(|| Blocks::of(&self.lines));
        let block = blocks.of_line.get(at).copied().flatten().and_then(|block| blocks.all.get(block));
        block.is_some_and(|block| {
            let is_secret = |line: usize| {
                #[cfg(test)]
                crate::steps::count();
                names_secret(self.line(line))
            };
            let secrets = *block.secrets.get_or_init(|| block.lines.iter().filter(|line| is_secret(**line)).count());
            secrets > usize::from(is_secret(at))
        })
    }
}

// === impl Blocks ===

impl Blocks {
    fn of(lines: &[&str]) -> Self {
        let mut blocks = Self::default();
        // Column and block, the rightmost last.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let block = content_column(line).map(|column| {
                while open.pop_if(|(other, _)| *other > column).is_some() {}
                match open.last() {
                    Some((other, block)) if *other == column => *block,
                    _ => {
                        open.push((column, blocks.all.len()));
                        blocks.all.push(Block::default());
                        blocks.all.len() - 1
                    }
                }
            });
            if let Some(block) = block.and_then(|block| blocks.all.get_mut(block)) {
                block.lines.push(at);
            }
            blocks.of_line.push(block);
        }
        blocks
    }
}

fn parents(lines: &[&str]) -> Vec<Option<usize>> {
    let mut open: Vec<Level> = Vec::new();
    let parent = |(at, line): (usize, &&str)| {
        let own = indentation(line)?;
        let is_item = line.trim_start().starts_with('-');
        while open.pop_if(|level| level.indentation > own).is_some() {}
        let same = open.pop_if(|level| level.indentation == own);
        let above = open.last().map(|level| level.last);
        let last_key = same.and_then(|level| level.last_key);
        let key = if is_item { last_key } else { Some(at) };
        open.push(Level { indentation: own, last: at, last_key: key });
        last_key.filter(|_| is_item).or(above)
    };
    lines.iter().enumerate().map(parent).collect()
}

/// Returns the indentation of a line, unless it is empty or a comment.
fn indentation(line: &str) -> Option<usize> {
    #[cfg(test)]
    crate::steps::count();
    let text = line.trim_start();
    (!text.is_empty() && !text.starts_with('#')).then(|| line.len() - text.len())
}

/// Returns the column of the first key or value of a line, after a list marker `- `.
fn content_column(line: &str) -> Option<usize> {
    let start = indentation(line)?;
    let text = &line[start..];
    Some(start + text.strip_prefix("- ").map_or(0, |item| text.len() - item.trim_start().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_a_line_is_the_nearest_line_with_less_indentation() {
        let text = "a:\n  b: 1\n\n  # c\n  d:\n  - e\n  - f:\n      g\n h: 2\ni:\n- j\n- k\n";
        let lines = FileLines::of(text);
        let found: Vec<Option<&str>> = (0..lines.all().len()).map(|at| lines.parent(at)).collect();
        let (a, d, f, i) = (Some("a:"), Some("  d:"), Some("  - f:"), Some("i:"));
        assert_eq!(found, [None, a, None, None, a, d, d, f, a, None, i, i]);
    }

    #[test]
    fn a_block_ends_at_a_line_further_left() {
        let text = "- name: X-Token\n  value: a\n\n- value: b\nc: 1\n- value: d\n";
        let lines = FileLines::of(text);
        let found: Vec<bool> = (0..6).map(|at| lines.has_secret_sibling(at, |line| line.contains("X-Token"))).collect();
        assert_eq!(found, [false, true, false, true, false, false]);
    }
}
