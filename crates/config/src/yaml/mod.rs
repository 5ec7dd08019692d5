//! YAML text to [`Node`]s that remember where they stood.
//!
//! A place is the document's number and the path of entry positions that leads to the node, in maps as in lists. Lines
//! and columns are found from it only when there is a problem to report (see [`crate::yaml::locate`]).

pub(crate) mod locate;

use std::fmt;

use serde::de::{DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, Visitor};

use crate::advice::advice;
use crate::de::canonical;
use crate::diagnostics::Diagnostics;

/// More nodes than any configuration has: stops aliases that multiply each other.
const MAX_NODES: usize = 1_000_000;

/// Where a node stood in the text: an index into [`Places`], and whether its key is meant rather than its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) place: u32,
    pub(crate) key: bool,
    /// The how manieth argument of a shortcut (`Name=a,b`) is meant, from 1; 0 for all of the node.
    pub(crate) argument: u8,
}

impl Span {
    /// The document itself.
    pub(crate) const ROOT: Self = Self::new(0);

    /// The node at `place`.
    pub(crate) const fn new(place: u32) -> Self {
        Self { place, key: false, argument: 0 }
    }

    /// The argument at `position`, from 0, of the shortcut that stands here.
    pub(crate) fn argument(self, position: usize) -> Self {
        Self { argument: u8::try_from(position + 1).unwrap_or(0), ..self }
    }

    /// The place of the key that leads here.
    pub(crate) fn key(self) -> Self {
        Self { key: true, ..self }
    }
}

/// Every place of one text.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<Place>);

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) document: usize,
    pub(crate) path: Vec<u32>,
}

impl Places {
    pub(crate) fn get(&self, span: Span) -> Option<&Place> {
        self.0.get(span.place as usize)
    }

    fn push(&mut self, place: Place) -> Span {
        let index = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(place);
        Span::new(index)
    }

    /// A second node that stands where `origin` stands: what a dotted key unfolds to.
    pub(crate) fn again(&mut self, span: Span) -> Span {
        let place = self.get(span).cloned().unwrap_or(Place { document: 0, path: Vec::new() });
        Span { key: span.key, ..self.push(place) }
    }
}

/// One YAML value. Its origin identifies it: no two nodes share one.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

/// What a [`Node`] holds. Scalars stay text until somebody wants them as a number or a flag.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Null,
    Scalar(String),
    Seq(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The value of `key`, written exactly so.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// One step of a dotted name: a key in any spelling, or `[n]` into a list.
    pub(crate) fn step(&self, step: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(entries) => {
                let exact = entries.iter().find(|(name, _)| name == step);
                let found = exact.or_else(|| entries.iter().find(|(name, _)| canonical(name) == canonical(step)));
                found.map(|(_, value)| value)
            }
            Kind::Seq(items) => items.get(step.strip_prefix('[')?.strip_suffix(']')?.parse::<usize>().ok()?),
            Kind::Null | Kind::Scalar(_) => None,
        }
    }

    /// Follows `path`, a key a step, each written exactly so.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The text of a scalar.
    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, for a message.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Scalar(text) => format!("`{text}`"),
            Kind::Seq(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
        }
    }
}

/// Reads every document of `text`. Syntax errors, tags and duplicate keys go to `sink`.
pub(crate) fn parse(text: &str, diagnostics: &mut Diagnostics) -> (Vec<Node>, Places) {
    let mut places = Places::default();
    let mut documents = Vec::new();
    for (number, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
        let mut build = Build { places: &mut places, diagnostics, document: number, path: Vec::new() };
        match build.deserialize(document) {
            Ok(node) => documents.push(node),
            Err(error) => {
                let (line, column) = error.location().map_or((0, 0), |l| (l.line(), l.column()));
                let message = error.to_string();
                // The parser appends the place, which the report gives already.
                let short = message.split(" at line ").next().unwrap_or(&message);
                let problem = diagnostics.error_at(line, column, format!("not valid YAML: {short}"));
                if let Some(help) = advice(&message) {
                    problem.help(help);
                }
                break;
            }
        }
    }
    (documents, places)
}

struct Build<'b> {
    places: &'b mut Places,
    diagnostics: &'b mut Diagnostics,
    document: usize,
    path: Vec<u32>,
}

impl Build<'_> {
    fn span(&mut self) -> Span {
        self.places.push(Place { document: self.document, path: self.path.clone() })
    }

    fn node<E>(&mut self, kind: Kind) -> Result<Node, E> {
        Ok(Node { span: self.span(), kind })
    }
}

impl<'de> DeserializeSeed<'de> for &mut Build<'_> {
    type Value = Node;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        if self.places.0.len() >= MAX_NODES {
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
        self.node(Kind::Scalar(v.to_string()))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Node, E> {
        self.node(Kind::Scalar(v.to_string()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Node, E> {
        self.node(Kind::Scalar(v.to_string()))
    }

    fn visit_i128<E>(self, v: i128) -> Result<Node, E> {
        self.node(Kind::Scalar(v.to_string()))
    }

    fn visit_u128<E>(self, v: u128) -> Result<Node, E> {
        self.node(Kind::Scalar(v.to_string()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Node, E> {
        // `{:?}` keeps the fraction of 1.0, as Java does when it makes a text of a number.
        self.node(Kind::Scalar(format!("{v:?}")))
    }

    fn visit_str<E>(self, v: &str) -> Result<Node, E> {
        self.node(Kind::Scalar(v.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        self.node(Kind::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        self.node(Kind::Null)
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
        Ok(Node { span, kind: Kind::Seq(items) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let span = self.span();
        let mut entries: Vec<(String, Node)> = Vec::new();
        let mut merged = Vec::new();
        self.path.push(0);
        while let Some(key) = map.next_key_seed(Key)? {
            let value = map.next_value_seed(&mut *self)?;
            if key == "<<" {
                merged.push(value);
            } else if entries.iter().any(|(name, _)| *name == key) {
                self.diagnostics.error(value.span.key(), format!("duplicate key `{key}`"));
            } else {
                entries.push((key, value));
            }
            step(&mut self.path);
        }
        self.path.pop();
        for value in merged {
            self.merge(&mut entries, value);
        }
        Ok(Node { span, kind: Kind::Map(entries) })
    }
}

impl Build<'_> {
    /// YAML's merge key `<<`: the entries of a map, or of each map of a list, that are not there already.
    fn merge(&mut self, entries: &mut Vec<(String, Node)>, value: Node) {
        match value.kind {
            Kind::Map(more) => {
                for (key, value) in more {
                    if !entries.iter().any(|(name, _)| *name == key) {
                        entries.push((key, value));
                    }
                }
            }
            Kind::Seq(items) => items.into_iter().for_each(|item| self.merge(entries, item)),
            Kind::Null | Kind::Scalar(_) => {
                self.diagnostics.error(value.span, "`<<` merges a map or a list of maps, not a plain value");
            }
        }
    }
}

fn step(path: &mut [u32]) {
    if let Some(last) = path.last_mut() {
        *last += 1;
    }
}

/// A map's key as text, whatever it looks like.
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
