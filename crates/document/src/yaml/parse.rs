//! YAML text to [`Node`]s, from the events of a parser.

use granit_parser::{Options, Parser};

use crate::yaml::builder::Builder;
use crate::yaml::maven::marked;
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
