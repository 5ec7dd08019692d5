//! Paragraphs, list items and table cells of Markdown.

use super::Passage;
use super::text::Passages;

/// Returns the passages of a Markdown text without its fenced code.
pub(super) fn passages(text: &str) -> Vec<Passage> {
    let mut passages = Passages::default();
    let mut is_code = false;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || text.starts_with("```") || text.is_empty() || text.starts_with("<!--") {
            passages.end();
        } else if text.starts_with('|') {
            text.trim_matches('|').split(" | ").for_each(|cell| passages.push(line, cell.trim()));
        } else {
            if text.starts_with(['#', '-', '*', '>'])
                || text.split_once(". ").is_some_and(|(number, _)| is_number(number))
            {
                passages.end();
            }
            passages.add(line, text.trim_start_matches(['#', '-', '*', '>', ' ']));
        }
    }
    passages.finish()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_items_and_cells_are_passages_and_code_is_not() {
        let text = "# Title\nA paragraph\nof two lines.\n\n- one item\n- another\n\n```sh\ncode\n```\n| a cell | b |\n";
        let texts: Vec<_> = passages(text).into_iter().map(|passage| passage.text).collect();
        assert_eq!(texts, ["Title A paragraph of two lines.", "one item", "another", "a cell", "b"]);
    }
}
