//! The nodes of a text, built from the events of the parser.

mod errors;
mod expressions;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, StrInput, StructureStyle};

use crate::yaml::names::Map;
use crate::yaml::node::{MAX_DEPTH, MAX_NODES, Node, NodeKind, TOO_DEEP, TOO_LARGE, copied, text_nodes};
use crate::yaml::parse::{Marked, Parsed, Problem};
use crate::yaml::scalar;
use crate::yaml::span::{Bytes, Span, block_scalar, list_below_key, nothing};

/// Builds the documents of a text.
pub(super) struct Builder<'t> {
    text: &'t str,
    marked: &'t Marked<'t>,
    file: usize,
    parsed: Parsed,
    /// The lists and maps that are not complete yet, innermost last.
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    /// Number of nodes.
    nodes: usize,
    /// Number of nodes that are kept for aliases.
    kept: usize,
    /// End of the last event.
    end: usize,
}

/// A list or map that is not complete yet.
struct Open {
    span: Span,
    anchor: usize,
    is_flow: bool,
    /// Number of nodes before it.
    nodes_before: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(Map),
}

/// Node that an alias may repeat.
struct Anchored {
    node: Node,
    /// Text of a scalar as it is written, for an alias as a key.
    key: Option<String>,
}

// === impl Builder ===

impl<'t> Builder<'t> {
    pub(super) fn new(text: &'t str, marked: &'t Marked<'t>, file: usize) -> Self {
        let (parsed, open, anchors) = (Parsed::default(), Vec::new(), HashMap::new());
        Self { text, marked, file, parsed, open, anchors, nodes: 0, kept: 0, end: 0 }
    }

    /// Reads all documents.
    pub(super) fn read(mut self, events: Parser<'t, StrInput<'t>>) -> Parsed {
        if let Err(problem) = self.documents(events) {
            self.parsed.problems.push(problem);
            self.parsed.is_broken = true;
        }
        self.parsed
    }

    fn documents(&mut self, events: Parser<'t, StrInput<'t>>) -> Result<(), Problem> {
        for event in events {
            let (event, span) = event.map_err(|error| self.syntax_error(&error))?;
            let at = span.byte_range().unwrap_or_default();
            let at = self.marked.original(at.start)..self.marked.original(at.end);
            let tag_start = span.tag_start().and_then(|tag| tag.byte_offset());
            let tag_start = tag_start.map_or(at.start, |start| self.marked.original(start));
            let end = at.end;
            match event {
                Event::Scalar(text, style, anchor, tag) => {
                    let tag = self.tag(tag.as_deref(), tag_start)?;
                    self.scalar(text, style, anchor, tag.as_deref(), at)?;
                }
                Event::SequenceStart(style, anchor, tag) => {
                    self.tag(tag.as_deref(), tag_start)?;
                    self.begin(Content::List(Vec::new()), style, anchor, at)?;
                }
                Event::MappingStart(style, anchor, tag) => {
                    self.tag(tag.as_deref(), tag_start)?;
                    self.begin(Content::Map(Map::new()), style, anchor, at)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(at.end)?,
                Event::Alias(anchor) => self.alias(anchor, &at)?,
                // It follows its node.
                Event::Anchor(_, name) => {
                    self.anchor(&name, at)?;
                    continue;
                }
                Event::StreamEnd if self.parsed.documents.is_empty() => {
                    let span = self.span(at);
                    self.put(Node { span, kind: NodeKind::Null });
                }
                _ => {}
            }
            self.end = end;
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: Cow<'t, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&str>,
        at: Range<usize>,
    ) -> Result<(), Problem> {
        let is_plain = style == ScalarStyle::Plain;
        if is_plain {
            self.plain(&text, &at)?;
        }
        // The parser returns `~` where nothing is.
        let text = if is_plain && at.is_empty() { Cow::Borrowed("") } else { self.marked.unmarked(text) };
        let is_key = match self.map_without_key() {
            Some(map) => {
                map.key = Some((text.clone().into_owned(), Bytes::new(at.clone())));
                true
            }
            None => false,
        };
        if is_plain && !is_key {
            self.expression(&at);
            self.missing_dash(&at);
        }
        self.nodes += text_nodes(&text);
        if is_key && anchor == 0 {
            return Ok(());
        }
        let at = match style {
            ScalarStyle::Literal | ScalarStyle::Folded => block_scalar(self.text, self.end, at),
            _ if at.is_empty() => {
                let is_flow = self.open.last().is_some_and(|open| open.is_flow);
                nothing(self.text, at.start, self.key_bytes().is_some(), is_flow)
            }
            _ => at,
        };
        self.count(&at)?;
        let span = self.span(at.clone());
        let key = (anchor > 0).then(|| text.clone().into_owned());
        let text = scalar::resolve(text, tag, is_plain).map_err(|message| self.error(at, &message))?;
        let node = Node { span, kind: text.map_or(NodeKind::Null, |text| NodeKind::Scalar(text.into_owned())) };
        if anchor > 0 {
            self.anchors.insert(anchor, Anchored { node: node.clone(), key });
        }
        if !is_key {
            self.put(node);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        content: Content,
        style: StructureStyle,
        anchor: usize,
        at: Range<usize>,
    ) -> Result<(), Problem> {
        if self.map_without_key().is_some() {
            return Err(self.no_plain_key(matches!(content, Content::List(_)), at));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(self.error(at, TOO_DEEP));
        }
        let nodes_before = self.nodes;
        self.count(&at)?;
        let is_flow = style == StructureStyle::Flow;
        let is_below_key = matches!(content, Content::List(_)) && !is_flow && self.key_bytes().is_some();
        let start = if is_below_key { list_below_key(self.text, self.end, at.start) } else { at.start };
        let span = self.span(start..at.end);
        self.open.push(Open { span, anchor, is_flow, nodes_before, content });
        Ok(())
    }

    /// Completes the innermost list or map.
    fn close(&mut self, end: usize) -> Result<(), Problem> {
        let Some(Open { span, anchor, nodes_before, content, .. }) = self.open.pop() else { return Ok(()) };
        let kind = match content {
            Content::List(items) => NodeKind::Seq(items),
            Content::Map(map) => {
                let before = self.parsed.unused.len();
                let kind = map.complete(&mut self.parsed);
                self.name_unused(before, self.open.len());
                kind
            }
        };
        let node = Node { span: span.until(end), kind };
        if anchor > 0 {
            self.kept += self.nodes - nodes_before;
            if self.kept > MAX_NODES {
                return Err(self.error(end..end, TOO_LARGE));
            }
            self.anchors.insert(anchor, Anchored { node: node.clone(), key: None });
        }
        self.put(node);
        Ok(())
    }

    fn alias(&mut self, anchor: usize, at: &Range<usize>) -> Result<(), Problem> {
        let Some(Anchored { node, key }) = self.anchors.get(&anchor) else {
            return Err(self.error(at.clone(), "an alias cannot stand within the node that it repeats"));
        };
        let key = key.clone();
        let mut copy =
            copied(node, self.open.len(), &mut self.nodes).map_err(|message| self.error(at.clone(), message))?;
        if let Some(key_bytes) = self.key_bytes() {
            copy.span = copy.span.keyed(key_bytes);
        }
        match (self.map_without_key(), key) {
            (None, _) => self.put(copy),
            (Some(map), Some(key)) => map.key = Some((key, Bytes::new(at.clone()))),
            (Some(_), None) => return Err(self.no_plain_key(matches!(copy.kind, NodeKind::Seq(_)), at.clone())),
        }
        Ok(())
    }

    /// Adds a complete node to the list or map around it.
    fn put(&mut self, node: Node) {
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.parsed.documents.push(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map(map)) => {
                let before = self.parsed.unused.len();
                map.put(node, &mut self.parsed);
                self.name_unused(before, self.open.len() - 1);
            }
        }
    }

    /// Names the key above the unused entries from `first` on, of a map within the first `depth` of the open ones.
    fn name_unused(&mut self, first: usize, depth: usize) {
        let Some(entries) = self.parsed.unused.get_mut(first..).filter(|entries| !entries.is_empty()) else { return };
        let key = |open: &Open| match &open.content {
            Content::Map(map) => map.key.as_ref().map(|(key, _)| key.clone()),
            Content::List(_) => None,
        };
        let above = self.open[..depth].iter().rev().find_map(key).unwrap_or_default();
        entries.iter_mut().for_each(|entry| entry.above.clone_from(&above));
    }

    /// Returns the innermost map, if its next node is a key.
    fn map_without_key(&mut self) -> Option<&mut Map> {
        match self.open.last_mut().map(|open| &mut open.content) {
            Some(Content::Map(map)) if map.key.is_none() => Some(map),
            _ => None,
        }
    }

    /// Returns the span of the next value.
    fn span(&self, at: Range<usize>) -> Span {
        let span = Span::new(self.file, Bytes::new(at));
        self.key_bytes().map_or(span, |key_bytes| span.keyed(key_bytes))
    }

    /// Returns the bytes of the key that leads to the next value.
    fn key_bytes(&self) -> Option<Bytes> {
        match &self.open.last()?.content {
            Content::Map(map) => map.key.as_ref().map(|(_, bytes)| *bytes),
            Content::List(_) => None,
        }
    }

    /// Counts a node.
    fn count(&mut self, at: &Range<usize>) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES { Err(self.error(at.clone(), TOO_LARGE)) } else { Ok(()) }
    }
}
