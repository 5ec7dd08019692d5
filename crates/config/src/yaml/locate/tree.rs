//! Positions of the nodes of a text, as a tree.

use std::collections::HashMap;
use std::io::Cursor;

use libyaml_safer::{Event, EventData, MappingStyle, Mark, Parser, SequenceStyle};

/// Line and column, both 1-based.
pub(crate) type Location = (usize, usize);

/// Index of a [`Position`] in its document.
type Index = usize;

/// Positions of the nodes of one document, the root first.
#[derive(Debug, Default)]
pub(super) struct Document(Vec<Position>);

/// One node.
#[derive(Debug)]
struct Position {
    at: Location,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Scalar,
    /// The node that an alias repeats.
    Alias(Index),
    Sequence(Vec<Index>),
    /// Keys and values in turn.
    Mapping(Vec<Index>),
}

/// Reads at most `limit` documents of `text`, up to the first syntax error. An unfinished document is kept.
///
/// The parser keeps its state on the heap, so deep nesting takes no stack; aliases are not expanded.
pub(super) fn read(text: &str, limit: usize) -> Vec<Document> {
    let mut parser = Parser::new();
    parser.set_input(Cursor::new(text.as_bytes()));
    let mut documents: Vec<Document> = Vec::new();
    let mut build = Build::default();
    while let Ok(event) = parser.parse() {
        match event.data {
            EventData::StreamEnd => break,
            EventData::DocumentStart { .. } if documents.len() == limit => break,
            EventData::DocumentStart { .. } => {
                documents.push(Document::default());
                build = Build::default();
            }
            EventData::StreamStart { .. } | EventData::DocumentEnd { .. } => {}
            _ => {
                if let Some(document) = documents.last_mut() {
                    build.add(event, document);
                }
            }
        }
    }
    documents
}

/// State of a document that is being read.
#[derive(Default)]
struct Build {
    /// Sequences and mappings that are not closed yet.
    open: Vec<Index>,
    anchors: HashMap<String, Index>,
}

impl Build {
    fn add(&mut self, event: Event, document: &mut Document) {
        let at = beginning(&event);
        let (content, anchor, opens) = match event.data {
            EventData::Scalar { anchor, .. } => (Content::Scalar, anchor, false),
            EventData::Alias { anchor } => {
                (self.anchors.get(&anchor).map_or(Content::Scalar, |target| Content::Alias(*target)), None, false)
            }
            EventData::SequenceStart { anchor, .. } => (Content::Sequence(Vec::new()), anchor, true),
            EventData::MappingStart { anchor, .. } => (Content::Mapping(Vec::new()), anchor, true),
            _ => {
                self.open.pop();
                return;
            }
        };
        let index = document.0.len();
        document.0.push(Position { at, content });
        if let Some(parent) = self.open.last()
            && let Some(Position { content: Content::Sequence(list) | Content::Mapping(list), .. }) =
                document.0.get_mut(*parent)
        {
            list.push(index);
        }
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, index);
        }
        if opens {
            self.open.push(index);
        }
    }
}

/// Returns the position of a node without its anchor and tag, which stand before a list or map.
fn beginning(event: &Event) -> Location {
    let (is_flow, has_properties) = match &event.data {
        EventData::SequenceStart { style, anchor, tag, .. } => {
            (*style == SequenceStyle::Flow, anchor.is_some() || tag.is_some())
        }
        EventData::MappingStart { style, anchor, tag, .. } => {
            (*style == MappingStyle::Flow, anchor.is_some() || tag.is_some())
        }
        _ => (false, false),
    };
    match (has_properties, is_flow) {
        (false, _) => location(event.start_mark, 0),
        // The event ends behind the bracket, or at the first entry of a block.
        (true, true) => location(event.end_mark, 1),
        (true, false) => location(event.end_mark, 0),
    }
}

fn location(mark: Mark, back: u64) -> Location {
    let from_one = |number: u64| usize::try_from(number).map_or(usize::MAX, |number| number.saturating_add(1));
    (from_one(mark.line), from_one(mark.column.saturating_sub(back)))
}

impl Document {
    /// Returns the position of the value at `path`, or of its key; an item of a sequence has no key. If the document
    /// ends before the path does, the position of the last node on it.
    pub(super) fn locate(&self, path: &[u32], key: bool) -> Option<Location> {
        let mut node = self.resolved(0)?;
        for (number, step) in path.iter().enumerate() {
            let step = usize::try_from(*step).unwrap_or(usize::MAX);
            let is_key = key && number + 1 == path.len();
            let child = match &node.content {
                Content::Sequence(items) => items.get(step),
                Content::Mapping(entries) => entries.get(step.saturating_mul(2) + usize::from(!is_key)),
                Content::Scalar | Content::Alias(_) => None,
            };
            let Some(child) = child.and_then(|child| self.resolved(*child)) else { break };
            node = child;
        }
        Some(node.at)
    }

    /// Returns the node at `index`, or the node that it repeats. The target of an alias is never an alias.
    fn resolved(&self, index: Index) -> Option<&Position> {
        let position = self.0.get(index)?;
        if let Content::Alias(target) = position.content { self.0.get(target) } else { Some(position) }
    }
}
