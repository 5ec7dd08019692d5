//! Prints YAML with comments.

use crate::yaml::{self, NodeKind};

/// Width of comments in columns.
const WIDTH: usize = 118;

/// Texts that YAML 1.1 reads as booleans and YAML 1.2 as text. They are printed in quotes.
const YAML_1_1_BOOLEANS: [&str; 6] = ["on", "off", "yes", "no", "y", "n"];

/// Begin of a comment on a setting that was dropped.
const LEFT_OUT: &str = "Left out: `";

/// A value, and the comments above it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) notes: Vec<String>,
    pub(super) value: Value,
    /// True to print an empty line before it.
    pub(super) is_section: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Only the comments are printed.
    Absent,
    Null,
    Scalar(String),
    Seq(Vec<Item>),
    Map(Vec<(String, Item)>),
}

impl Item {
    pub(super) fn plain(value: Value) -> Self {
        Self { notes: Vec::new(), value, is_section: false }
    }

    pub(super) fn scalar(text: impl Into<String>) -> Self {
        Self::plain(Value::Scalar(text.into()))
    }

    /// Adds a comment above it.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds a comment that `what` was dropped.
    pub(super) fn left_out(&mut self, what: &str, why: &str) {
        let why = why.strip_prefix(&format!("`{what}` ")).unwrap_or(why);
        self.note(format!("{LEFT_OUT}{what}`: {why}."));
    }

    /// Returns true for an empty map or list, and for nothing.
    pub(super) fn is_gone(&self) -> bool {
        match &self.value {
            Value::Map(entries) => entries.is_empty(),
            Value::Seq(items) => items.is_empty(),
            Value::Null | Value::Absent => true,
            Value::Scalar(_) => false,
        }
    }

    /// Removes empty maps below it, whose comments on dropped settings become its own. Metadata has names of the author's.
    pub(super) fn drop_empty_maps(&mut self) {
        let Value::Map(entries) = &mut self.value else { return };
        for (key, part) in entries.iter_mut().filter(|(key, _)| !key.starts_with("metadata")) {
            part.drop_empty_maps();
            if matches!(&part.value, Value::Map(entries) if entries.is_empty()) {
                let dropped = part.notes.iter().filter_map(|note| note.strip_prefix(LEFT_OUT));
                self.notes.extend(dropped.map(|what| format!("{LEFT_OUT}{key}.{what}")));
                part.value = Value::Absent;
            }
        }
        entries.retain(|(_, part)| !matches!(part.value, Value::Absent));
    }
}

/// Appends `root`, a map of sections.
pub(super) fn print(root: &Item, out: &mut String) {
    if let Value::Map(entries) = &root.value {
        entries.iter().for_each(|entry| write_entry(entry, 0, out));
    }
}

fn write_entry((key, item): &(String, Item), depth: usize, out: &mut String) {
    if item.is_section {
        out.push('\n');
    }
    notes(item, depth, out);
    if matches!(item.value, Value::Absent) {
        return;
    }
    indent(depth, out);
    out.push_str(&key_text(key));
    out.push(':');
    match &item.value {
        Value::Null => out.push('\n'),
        Value::Map(entries) if !entries.is_empty() => {
            out.push('\n');
            entries.iter().for_each(|entry| write_entry(entry, depth + 1, out));
        }
        value => write_value(value, depth, out),
    }
}

fn write_item(item: &Item, depth: usize, out: &mut String) {
    notes(item, depth, out);
    indent(depth, out);
    out.push('-');
    write_value(&item.value, depth, out);
}

/// Writes a value behind its dash, or behind its key.
fn write_value(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Null | Value::Absent => out.push_str(" null\n"),
        Value::Scalar(text) => line(text, out),
        Value::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
        Value::Seq(items) if items.is_empty() => out.push_str(" []\n"),
        Value::Map(entries) => {
            let mut inner = String::new();
            entries.iter().for_each(|entry| write_entry(entry, depth + 1, &mut inner));
            if entries.first().is_some_and(|(_, first)| first.notes.is_empty()) {
                // The first key stands on the line of the dash.
                out.push(' ');
                out.push_str(inner.trim_start());
            } else {
                out.push('\n');
                out.push_str(&inner);
            }
        }
        Value::Seq(items) => {
            out.push('\n');
            items.iter().for_each(|item| write_item(item, depth + 1, out));
        }
    }
}

fn line(text: &str, out: &mut String) {
    out.push(' ');
    out.push_str(&scalar(text));
    out.push('\n');
}

fn indent(depth: usize, out: &mut String) {
    out.push_str(&"  ".repeat(depth));
}

fn notes(item: &Item, depth: usize, out: &mut String) {
    for note in &item.notes {
        let mut column = WIDTH;
        for word in note.split(' ') {
            if column + 1 + word.chars().count() > WIDTH {
                if column < WIDTH {
                    out.push('\n');
                }
                indent(depth, out);
                out.push('#');
                column = 2 * depth + 1;
            }
            out.push(' ');
            out.push_str(word);
            column += 1 + word.chars().count();
        }
        out.push('\n');
    }
}

/// Returns a key as YAML; one with dots or brackets is put in brackets.
fn key_text(key: &str) -> String {
    if key.contains(['.', '[']) { quoted(&format!("[{key}]")) } else { scalar(key) }
}

/// Words without a sign that are no texts in YAML 1.1 or 1.2.
const NO_TEXTS: [&str; 3] = ["null", "true", "false"];

/// Returns true for a word, which needs neither quotes nor a parser to tell so.
fn is_word(text: &str) -> bool {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(is_of_word)
        && !YAML_1_1_BOOLEANS.iter().chain(&NO_TEXTS).any(|word| word.eq_ignore_ascii_case(text))
}

/// Returns `text` as a YAML scalar, quoted unless the plain form reads back as the same text.
fn scalar(text: &str) -> String {
    if is_word(text) {
        return text.to_owned();
    }
    let is_simple = !text.is_empty() && !text.contains(['\n', '\r', '#', '\u{feff}']) && text.trim() == text;
    if is_simple
        && let [document] = yaml::parse(&format!("- {text}\n"), 0).documents.as_slice()
        && let NodeKind::Seq(items) = &document.kind
        && let [only] = items.as_slice()
        && only.scalar() == Some(text)
        && !text.starts_with(['{', '[', '&', '*', '!', '|', '>', '%', '@', '`', '"', '\''])
        && !YAML_1_1_BOOLEANS.iter().any(|word| word.eq_ignore_ascii_case(text))
        && !text.contains(": ")
        && !text.ends_with(':')
    {
        return text.to_owned();
    }
    quoted(text)
}

/// Returns `text` in double quotes: JSON strings are YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn every_printed_text_is_read_unchanged() {
        for text in [
            "",
            " ",
            "a",
            "8080",
            "010",
            "1.0",
            "1e3",
            "0x1F",
            "true",
            "True",
            "FALSE",
            "Null",
            "a-b_c.d/e",
            "y",
            "off",
            "null",
            "~",
            "a: b",
            "a:",
            "- a",
            "a #b",
            "#a",
            "{a}",
            "[a]",
            "*a",
            "&a",
            "!a",
            "|",
            "\"a\"",
            "'a'",
            "a\nb",
            "ä",
            "\u{1f600}",
            "a\tb",
            "%a",
            "@a",
            "`a`",
            "a, b",
            "Path=/a/{b:[0-9]{2,3}}/**",
            "#{@bean}",
            "${A:b}",
            "-1",
            "-",
            "?",
            "<<",
            "\u{0}",
            "2027-01-20T17:42:47-07:00",
        ] {
            let mut out = String::new();
            print(&Item::plain(Value::Map(vec![("k".to_owned(), Item::scalar(text))])), &mut out);
            let documents = yaml::parse(&out, 0).documents;
            assert_eq!(documents[0].get("k").unwrap().scalar(), Some(text), "{out}");
        }
    }
}
