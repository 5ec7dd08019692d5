//! Keys that a translation adds.

use std::collections::HashMap;

use crate::tree::find;
use tollgate_document::yaml::key::same_name;
use tollgate_document::yaml::{Node, NodeKind, Span};

/// The keys that a translation has added or changed, and why.
#[derive(Debug, Default)]
pub struct Explicit {
    /// By the number of the node.
    reasons: HashMap<u32, &'static str>,
}

impl Explicit {
    /// Returns the comment for the value at `at`, if the translation has added or changed it.
    pub fn reason(&self, at: Span) -> Option<&'static str> {
        self.reasons.get(&at.node).copied()
    }

    /// Sets the comment for the value at `at`, which the translation has changed.
    pub(super) fn explain(&mut self, at: Span, reason: &'static str) {
        self.reasons.insert(at.node, reason);
    }

    /// Adds `text` at `path` below `node`, unless that key is there. An added key has the place of the nearest section that the
    /// file has. Returns true if it was added.
    pub(super) fn add_missing(&mut self, node: &mut Node, path: &[&str], text: &str, reason: &'static str) -> bool {
        if find(node, path).is_some() {
            return false;
        }
        self.add(node, path, text, reason)
    }

    fn add(&mut self, node: &mut Node, path: &[&str], text: &str, reason: &'static str) -> bool {
        let Some((key, below)) = path.split_first() else { return false };
        if matches!(node.kind, NodeKind::Null) {
            node.kind = NodeKind::Map(Vec::new());
        }
        let NodeKind::Map(entries) = &mut node.kind else { return false };
        if let Some((_, section)) = entries.iter_mut().find(|(name, _)| same_name(name, key)) {
            return self.add(section, below, text, reason);
        }
        let span = node.span.again().until(node.span.bytes().range().start);
        let mut made = Node { span, kind: NodeKind::Null };
        if below.is_empty() {
            made.kind = NodeKind::Scalar(text.to_owned());
            self.reasons.insert(span.node, reason);
        } else {
            self.add(&mut made, below, text, reason);
        }
        entries.push(((*key).to_owned(), made));
        true
    }
}
