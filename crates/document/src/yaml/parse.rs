//! YAML text to [`Node`]s, from the events of a parser, which reads placeholders of Maven as marks.

use std::borrow::Cow;

use granit_parser::{Options, Parser};

use crate::yaml::builder::Builder;
use crate::yaml::node::Node;
use crate::yaml::span::{Bytes, Span};

/// Line ends of YAML 1.1. Spring's reader knows them, and the parser does not: to both, a text with them would say something
/// else.
const OLD_LINE_ENDS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// A text as it was read.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The documents before the first syntax error.
    pub documents: Vec<Node>,
    /// Syntax errors, tags and duplicate keys.
    pub problems: Vec<Problem>,
    /// Texts that probably say something else than their author meant.
    pub warnings: Vec<Problem>,
    /// True if there is a syntax error: the documents are those before it.
    pub is_broken: bool,
    /// Entries of maps that others of the same name replace, and merged values that are no maps.
    pub unused: Vec<Unused>,
    /// Lists of merge keys, `<<`, that the map has in another form itself.
    pub overridden: Vec<Overridden>,
}

/// A list or text of a merge key in whose place the map has a value of its own.
#[derive(Debug)]
pub struct Overridden {
    /// Its key.
    pub key: String,
    /// The value.
    pub list: Node,
    /// Number of the node in its place.
    pub by: u32,
}

/// An entry of a map that another one replaces.
#[derive(Debug)]
pub struct Unused {
    /// The key that leads to the map; empty at the top.
    pub above: String,
    /// Key and value.
    pub entry: (String, Node),
}

/// An error of the text.
#[derive(Debug)]
pub struct Problem {
    /// Its place.
    pub at: Span,
    /// Description of the problem.
    pub message: String,
    /// Remedy.
    pub help: Option<String>,
    /// Place of the first key of the same name.
    pub first: Option<Span>,
}

/// Reads every document of `text`, the content of the file with the index `file`.
pub fn parse(text: &str, file: usize) -> Parsed {
    let old_line_end = if text.is_ascii() { None } else { text.find(OLD_LINE_ENDS) };
    match old_line_end {
        None => read(text, file),
        Some(at) => {
            let message = "not valid YAML: a character ends a line in YAML 1.1, but not in YAML 1.2".to_owned();
            let help = "U+0085, U+2028 and U+2029 are written as `\\N`, `\\L` and `\\P` in double quotes; break the line elsewhere";
            broken(Problem {
                at: Span::new(file, Bytes::new(at..at)),
                message,
                help: Some(help.to_owned()),
                first: None,
            })
        }
    }
}

fn broken(problem: Problem) -> Parsed {
    Parsed { problems: vec![problem], is_broken: true, ..Parsed::default() }
}

fn read(text: &str, file: usize) -> Parsed {
    let marked = marked(text);
    Builder::new(text, &marked, file).read(Parser::new_from_str_with_options(&marked.text, options()))
}

/// Returns the options of the parser: texts are those that libyaml and SnakeYAML read.
fn options() -> Options {
    granit_parser::options! {
        bom_inside_document_as_content: true,
        block_scalar_eof_without_line_feed: true,
        emit_anchor_events: true,
    }
}

/// Reads `text` as JSON, in the same way.
pub fn parse_json(text: &str, file: usize) -> Parsed {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => read(text, file),
        Err(error) => {
            let at = Span::new(file, Bytes::NONE);
            broken(Problem { at, message: format!("not valid JSON: {error}"), help: None, first: None })
        }
    }
}

/// Character in place of the first `@`.
const MARK: char = '\u{E000}';

/// Text with marks.
pub(super) struct Marked<'t> {
    pub(super) text: Cow<'t, str>,
    /// Positions behind the marks, in `text`.
    behind: Vec<usize>,
}

impl Marked<'_> {
    /// Returns a scalar of the text as it was.
    pub(super) fn unmarked<'s>(&self, scalar: Cow<'s, str>) -> Cow<'s, str> {
        if self.behind.is_empty() { scalar } else { Cow::Owned(scalar.replace(MARK, "@")) }
    }

    /// Returns the position in the text without marks.
    pub(super) fn original(&self, at: usize) -> usize {
        at - self.behind.partition_point(|behind| *behind <= at) * (MARK.len_utf8() - 1)
    }
}

/// Returns `text` with a mark in place of each `@` that begins a placeholder where a value begins.
pub(super) fn marked(text: &str) -> Marked<'_> {
    if !text.contains('@') || text.contains(MARK) {
        return Marked { text: Cow::Borrowed(text), behind: Vec::new() };
    }
    let (mut out, mut behind) = (String::new(), Vec::new());
    let mut copied = 0;
    for (at, _) in text.match_indices('@') {
        if at >= copied && begins_value(&text[..at]) && is_placeholder(&text[at + 1..]) {
            out.push_str(&text[copied..at]);
            out.push(MARK);
            behind.push(out.len());
            copied = at + 1;
        }
    }
    out.push_str(&text[copied..]);
    Marked { text: Cow::Owned(out), behind }
}

/// Returns true if a value begins behind `before`.
fn begins_value(before: &str) -> bool {
    let trimmed = before.trim_end_matches([' ', '\t']);
    let is_apart = trimmed.len() < before.len();
    trimmed.ends_with(['[', '{', ',']) || (is_apart && trimmed.ends_with([':', '-']))
}

/// Returns true if `text` begins with a name and `@`.
fn is_placeholder(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || ".-_".contains(c))).unwrap_or(text.len());
    end > 0 && text[end..].starts_with('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_begin_with_a_placeholder_are_marked() {
        for text in ["a: @x.y@", "- @x@", "[@x@, b]", "{a: @x@-1}", "[a,@x@]"] {
            let marked = marked(text);
            assert!(marked.behind.len() == 1 && marked.text.matches(MARK).count() == 1, "{text}");
            assert_eq!(marked.unmarked(marked.text.clone()), text);
            assert_eq!(marked.original(marked.text.len()), text.len());
            assert_eq!(marked.original(marked.text.find(MARK).unwrap_or(0)), text.find('@').unwrap_or(0));
        }
        for text in
            ["", "a: b@c@d", "a: \"@x@\"", "a: @x", "a: @ @", "mail: me@example.org", "a:@x@", "\u{E000} a: @x@"]
        {
            assert!(marked(text).behind.is_empty(), "{text}");
        }
    }
}
