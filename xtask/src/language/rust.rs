//! Comments and string literals of Rust.

use super::Passage;
use super::text::Passages;

/// Returns the passages of a Rust file: paragraphs of doc comments, runs of line comments, and string literals.
pub(super) fn passages(text: &str) -> Vec<Passage> {
    Reader::read(text).passages.finish()
}

/// Returns the words of a Rust file outside of comments and literals, with their lines.
pub(super) fn words(text: &str) -> Vec<(usize, &str)> {
    Reader::read(text).words
}

/// A lexer that knows comments, strings and characters, and skips everything else.
struct Reader<'t> {
    rest: &'t str,
    line: usize,
    passages: Passages,
    /// Identifiers, keywords and numbers, with their lines.
    words: Vec<(usize, &'t str)>,
    /// The marker of the doc comment that the last line belonged to.
    doc: Option<&'static str>,
    /// True within fenced code of a doc comment.
    is_code: bool,
}

impl<'t> Reader<'t> {
    fn read(text: &'t str) -> Self {
        let mut reader =
            Self { rest: text, line: 1, passages: Passages::default(), words: Vec::new(), doc: None, is_code: false };
        while reader.step() {}
        reader
    }

    /// Reads one token; false at the end of the text.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        match first {
            '/' if self.rest.starts_with("//") => self.comment(),
            '"' => self.string(),
            'r' if self.rest.starts_with("r\"") || self.rest.starts_with("r#\"") => self.raw_string(),
            '\'' => self.character(),
            '\n' => {
                self.advance(1);
                self.blank_line();
            }
            _ if first.is_alphanumeric() || first == '_' => {
                self.leave_comment();
                let length = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
                self.words.push((self.line, &self.rest[..length]));
                self.advance(length);
            }
            _ => {
                if !first.is_whitespace() {
                    self.leave_comment();
                }
                self.advance(first.len_utf8());
            }
        }
        true
    }

    fn advance(&mut self, length: usize) {
        let (token, rest) = self.rest.split_at(length);
        self.line += token.matches('\n').count();
        self.rest = rest;
    }

    fn leave_comment(&mut self) {
        self.passages.end();
        self.doc = None;
        self.is_code = false;
    }

    fn blank_line(&mut self) {
        if self.rest.trim_start_matches([' ', '\t']).starts_with('\n') {
            self.leave_comment();
        }
    }

    fn comment(&mut self) {
        let length = self.rest.find('\n').unwrap_or(self.rest.len());
        let (line, text) = (self.line, self.rest[..length].to_owned());
        self.advance(length);
        let marker = ["///", "//!"].into_iter().find(|marker| text.starts_with(marker));
        let body = text.trim_start_matches(['/', '!']).trim();
        if self.doc != marker {
            self.leave_comment();
        }
        if body.starts_with("```") {
            self.is_code = !self.is_code;
        }
        if self.is_code || body.starts_with("```") || body.is_empty() {
            self.passages.end();
        } else if marker.is_some() && body.starts_with('|') {
            body.trim_matches('|').split(" | ").for_each(|cell| self.passages.push(line, cell.trim()));
        } else {
            if body.starts_with(['#', '-', '*']) {
                self.passages.end();
            }
            self.passages.add(line, body.trim_start_matches(['#', '-', '*', ' ']));
            if marker.is_some() && self.doc != marker {
                self.passages.mark_doc();
            }
        }
        self.doc = marker;
    }

    fn string(&mut self) {
        self.leave_comment();
        let mut is_escaped = false;
        let end = self.rest[1..].find(|c: char| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let length = end.map_or(self.rest.len(), |end| end + 2);
        let text = self.rest[1..length.saturating_sub(1).max(1)].to_owned();
        self.literal(&text, length);
    }

    fn raw_string(&mut self) {
        self.leave_comment();
        let hashes = self.rest[1..].bytes().take_while(|byte| *byte == b'#').count();
        let end = format!("\"{}", "#".repeat(hashes));
        let start = 2 + hashes;
        let length = self.rest[start..].find(&end).map_or(self.rest.len(), |at| start + at + end.len());
        let text = self.rest[start..length.saturating_sub(end.len()).max(start)].to_owned();
        self.literal(&text, length);
    }

    /// Takes a string literal. Its lines are passages of their own: a text of several lines is data more often than prose.
    fn literal(&mut self, text: &str, length: usize) {
        let line = self.line;
        let joined = text.replace("\\\n", " ").replace("\\n", "\n").replace("\\\"", "\"");
        for piece in joined.lines().filter(|piece| !piece.trim().is_empty()) {
            self.passages.push(line, piece.trim());
        }
        self.advance(length);
    }

    /// Skips a character literal; a lifetime is not one.
    fn character(&mut self) {
        self.leave_comment();
        let mut chars = self.rest[1..].chars();
        let length = match (chars.next(), chars.next()) {
            (Some('\\'), _) => {
                self.rest[2..].char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 3)
            }
            (Some(c), Some('\'')) => c.len_utf8() + 2,
            _ => 1,
        };
        self.advance(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(rust: &str) -> Vec<(usize, String, bool)> {
        passages(rust).into_iter().map(|passage| (passage.line, passage.text, passage.opens_doc)).collect()
    }

    #[test]
    fn doc_comments_are_paragraphs_and_their_code_is_left_out() {
        let found = texts("//! One\n//! two.\n//!\n//! ```\n//! code\n//! ```\n//! Three.\n\n/// Four.\nfn a() {}\n");
        let expected = [(1, "One two.", true), (7, "Three.", false), (9, "Four.", true)];
        assert_eq!(found, expected.map(|(line, text, opens)| (line, text.to_owned(), opens)));
    }

    #[test]
    fn strings_characters_and_lifetimes_are_told_apart() {
        let found = texts("fn a<'t>(b: &'t str) { f('\"', '\\'', \"one \\\" two\", r#\"three \" four\"#); } // five\n");
        let texts: Vec<_> = found.iter().map(|(_, text, _)| text.as_str()).collect();
        assert_eq!(texts, ["one \" two", "three \" four", "five"]);
    }

    #[test]
    fn words_are_those_outside_of_comments_and_literals() {
        assert_eq!(words("// one\nfn two() { f(\"three\", 'f'); }\n"), [(2, "fn"), (2, "two"), (2, "f")]);
    }

    #[test]
    fn the_attribute_between_two_doc_comments_separates_them() {
        let found = texts("/// One.\n#[inline]\nfn a() {}\n/// Two.\nfn b() {}\n");
        assert!(found.iter().all(|(.., opens)| *opens) && found.len() == 2);
    }
}
