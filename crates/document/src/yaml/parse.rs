//! YAML text to [`Node`]s, from the events of a parser.

use granit_parser::Parser;

use crate::yaml::builder::Builder;
use crate::yaml::maven::marked;
use crate::yaml::node::Node;
use crate::yaml::span::{Bytes, Span};

/// A text as it was read.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The documents before the first syntax error.
    pub documents: Vec<Node>,
    /// Syntax errors, tags and duplicate keys.
    pub problems: Vec<Problem>,
    /// The nodes of the document with the syntax error, up to it. Its last value is the text behind the last node, to the
    /// end of the error's line.
    pub broken: Option<Node>,
    /// Entries of maps that others of the same name replace, and merged values that are no maps.
    pub unused: Vec<Unused>,
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
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// Reads every document of `text`, the content of the file with the index `file`.
pub fn parse(text: &str, file: usize) -> Parsed {
    let marked = marked(text);
    Builder::new(text, &marked, file).read(Parser::new_from_str(&marked.text))
}

/// Reads `text` as JSON, in the same way.
pub fn parse_json(text: &str, file: usize) -> Parsed {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => parse(text, file),
        Err(error) => {
            let at = Span::new(file, Bytes::NONE);
            let problem = Problem { at, message: format!("not valid JSON: {error}"), help: None };
            Parsed { problems: vec![problem], ..Parsed::default() }
        }
    }
}
