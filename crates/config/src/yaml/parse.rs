//! YAML text to [`Node`]s, by the values that `serde_yaml` reads.

use std::fmt;

use serde::de::{DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, Visitor};

use crate::yaml::advice::advice;
use crate::yaml::maven::{marked, unmarked};
use crate::yaml::names::NameIndex;
use crate::yaml::node::{Node, NodeKind};
use crate::yaml::span::{Place, Places, Span};

/// Nodes of a configuration at most: a bound for aliases that multiply each other.
const MAX_NODES: usize = 1_000_000;

/// A text as it was read.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// The documents before the first syntax error.
    pub(crate) documents: Vec<Node>,
    /// Syntax errors, tags and duplicate keys.
    pub(crate) problems: Vec<Problem>,
}

/// An error of the text.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) at: ProblemAt,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// Position of a [`Problem`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProblemAt {
    Span(Span),
    /// Line and column as the parser reports them, both 1-based; 0 if it reports none.
    LineColumn(usize, usize),
}

/// Reads every document of `text`, the content of the file with the index `file`. Adds their nodes to `places`.
pub(crate) fn parse(text: &str, file: usize, places: &mut Places) -> Parsed {
    let mut parsed = Parsed::default();
    let (text, is_marked) = marked(text);
    for (number, document) in serde_yaml::Deserializer::from_str(&text).enumerate() {
        let problems = &mut parsed.problems;
        let mut build = Build { places, problems, file, document: number, path: Vec::new(), is_marked };
        match build.deserialize(document) {
            Ok(node) => parsed.documents.push(node),
            Err(error) => {
                parsed.problems.push(syntax_error(&error));
                break;
            }
        }
    }
    parsed
}

/// Reads `text` as JSON, in the same way.
pub(crate) fn parse_json(text: &str, file: usize, places: &mut Places) -> Parsed {
    let mut parsed = Parsed::default();
    let problems = &mut parsed.problems;
    let mut build = Build { places, problems, file, document: 0, path: Vec::new(), is_marked: false };
    match build.deserialize(&mut serde_json::Deserializer::from_str(text)) {
        Ok(node) => parsed.documents.push(node),
        Err(error) => parsed.problems.push(Problem {
            at: ProblemAt::LineColumn(0, 0),
            message: format!("not valid JSON: {error}"),
            help: None,
        }),
    }
    parsed
}

fn syntax_error(error: &serde_yaml::Error) -> Problem {
    let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
    let message = error.to_string();
    // The parser appends the position, which the report shows already.
    let short = message.split(" at line ").next().unwrap_or(&message);
    Problem {
        at: ProblemAt::LineColumn(line, column),
        message: format!("not valid YAML: {short}"),
        help: advice(&message),
    }
}

/// Builds the node at `path` of a document.
struct Build<'b> {
    places: &'b mut Places,
    problems: &'b mut Vec<Problem>,
    file: usize,
    document: usize,
    path: Vec<u32>,
    /// True if placeholders of Maven are marked in the text.
    is_marked: bool,
}

impl Build<'_> {
    fn text(&self, v: &str) -> String {
        if self.is_marked { unmarked(v) } else { v.to_owned() }
    }

    fn span(&mut self) -> Span {
        self.places.push(Place { file: self.file, document: self.document, path: self.path.clone() })
    }

    fn error(&mut self, at: Span, message: String) {
        self.problems.push(Problem { at: ProblemAt::Span(at), message, help: None });
    }

    fn node<E>(&mut self, kind: NodeKind) -> Result<Node, E> {
        Ok(Node { span: self.span(), kind })
    }
}

impl<'de> DeserializeSeed<'de> for &mut Build<'_> {
    type Value = Node;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        if self.places.len() >= MAX_NODES {
            return Err(D::Error::custom("too large: aliases multiply each other"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Build<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Node, E> {
        self.node(NodeKind::Scalar(v.to_string()))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Node, E> {
        self.node(NodeKind::Scalar(v.to_string()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Node, E> {
        self.node(NodeKind::Scalar(v.to_string()))
    }

    fn visit_i128<E>(self, v: i128) -> Result<Node, E> {
        self.node(NodeKind::Scalar(v.to_string()))
    }

    fn visit_u128<E>(self, v: u128) -> Result<Node, E> {
        self.node(NodeKind::Scalar(v.to_string()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Node, E> {
        // `{:?}` keeps the fraction of 1.0, as Java does when it makes a text of a number.
        self.node(NodeKind::Scalar(format!("{v:?}")))
    }

    fn visit_str<E>(self, v: &str) -> Result<Node, E> {
        let text = self.text(v);
        self.node(NodeKind::Scalar(text))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        self.node(NodeKind::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        self.node(NodeKind::Null)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Node, A::Error> {
        let (tag, _) = data.variant::<String>()?;
        Err(A::Error::custom(format!("tag `!{tag}` has no meaning here")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let span = self.span();
        let mut items = Vec::new();
        self.path.push(0);
        while let Some(item) = seq.next_element_seed(&mut *self)? {
            items.push(item);
            step(&mut self.path);
        }
        self.path.pop();
        Ok(Node { span, kind: NodeKind::Seq(items) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let span = self.span();
        let mut entries: Vec<(String, Node)> = Vec::new();
        let mut names = NameIndex::exact();
        let mut merged = Vec::new();
        self.path.push(0);
        while let Some(key) = map.next_key_seed(Key)? {
            let key = if self.is_marked { unmarked(&key) } else { key };
            let value = map.next_value_seed(&mut *self)?;
            if key == "<<" {
                merged.push(value);
            } else if names.find(&entries, &key).is_some() {
                self.error(value.span.key(), format!("duplicate key `{key}`"));
            } else {
                entries.push((key, value));
            }
            step(&mut self.path);
        }
        self.path.pop();
        for value in merged {
            self.merge(&mut entries, &mut names, value);
        }
        Ok(Node { span, kind: NodeKind::Map(entries) })
    }
}

impl Build<'_> {
    /// Applies YAML's merge key `<<`: adds the entries of a map, or of each map of a list, that are not present yet.
    fn merge(&mut self, entries: &mut Vec<(String, Node)>, names: &mut NameIndex, value: Node) {
        match value.kind {
            NodeKind::Map(more) => {
                for (key, value) in more {
                    if names.find(entries, &key).is_none() {
                        entries.push((key, value));
                    }
                }
            }
            NodeKind::Seq(items) => items.into_iter().for_each(|item| self.merge(entries, names, item)),
            NodeKind::Null | NodeKind::Scalar(_) => {
                self.error(value.span, "`<<` merges a map or a list of maps, not a plain value".to_owned());
            }
        }
    }
}

fn step(path: &mut [u32]) {
    if let Some(last) = path.last_mut() {
        *last += 1;
    }
}

/// Reads a map's key as text: numbers and booleans keep their spelling.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain key")
    }

    fn visit_str<E>(self, v: &str) -> Result<String, E> {
        Ok(v.to_owned())
    }
}
