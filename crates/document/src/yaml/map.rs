//! A map while it is read.

use crate::yaml::names::NameIndex;
use crate::yaml::node::{Node, NodeKind};
use crate::yaml::parse::{Overridden, Parsed, Problem, Unused};
use crate::yaml::span::Bytes;

/// A map that is not complete yet.
pub(super) struct Map {
    entries: Vec<(String, Node)>,
    names: NameIndex,
    /// Values of merge keys, each with the position of its key.
    merged: Vec<(u32, Node)>,
    /// The key whose value follows.
    pub(super) key: Option<(String, Bytes)>,
}

// === impl Map ===

impl Map {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), names: NameIndex::exact(), merged: Vec::new(), key: None }
    }

    /// Adds the value of the key.
    pub(super) fn put(&mut self, value: Node, parsed: &mut Parsed) {
        let (key, bytes) = self.key.take().unwrap_or_default();
        if key == "<<" {
            self.merged.push((bytes.start, value));
        } else if let Some(at) = self.names.find(&self.entries, &key) {
            let message = format!("duplicate key `{key}`");
            let first = self.entries.get(at).map(|(_, first)| first.span.key());
            let help = Some(
                "remove one of the two, or join their values; a further item of a list begins with `- `".to_owned(),
            );
            parsed.problems.push(Problem { at: value.span.key(), message, help, first });
            parsed.unused.push(unused(key, value));
        } else {
            self.entries.push((key, value));
        }
    }

    /// Returns the whole map, with the entries of merge keys.
    pub(super) fn complete(mut self, parsed: &mut Parsed) -> NodeKind {
        std::mem::take(&mut self.merged).into_iter().for_each(|(at, value)| self.merge(at, value, parsed));
        NodeKind::Map(self.entries)
    }

    /// Applies YAML's merge key `<<` at `at`: adds the entries of a map, or of each map of a list, that are not present yet.
    /// Others are unused. Those of an alias are not listed: they stand before `at`, in the tree, and may be repeated without
    /// bound.
    fn merge(&mut self, at: u32, value: Node, parsed: &mut Parsed) {
        match value.kind {
            NodeKind::Map(more) => {
                for (key, value) in more {
                    let Some((_, own)) = self.names.find(&self.entries, &key).and_then(|known| self.entries.get(known))
                    else {
                        self.entries.push((key, value));
                        continue;
                    };
                    let by = own.span.node;
                    if value.span.bytes().start > at {
                        parsed.unused.push(unused(key.clone(), value.clone()));
                    }
                    if !matches!(value.kind, NodeKind::Map(_) | NodeKind::Null) {
                        parsed.overridden.push(Overridden { key, list: value, by });
                    }
                }
            }
            NodeKind::Seq(items) => items.into_iter().for_each(|item| self.merge(at, item, parsed)),
            NodeKind::Null | NodeKind::Scalar(_) => {
                let message = "`<<` merges a map or a list of maps, not a plain value".to_owned();
                parsed.problems.push(Problem { at: value.span, message, help: None, first: None });
                parsed.unused.push(unused(String::new(), value));
            }
        }
    }
}

fn unused(key: String, value: Node) -> Unused {
    Unused { above: String::new(), entry: (key, value) }
}
