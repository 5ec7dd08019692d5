//! Keys that a translation adds.

use std::collections::HashMap;

use crate::tree;
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
        let Some(made) = tree::add_missing(node, path) else { return false };
        made.kind = NodeKind::Scalar(text.to_owned());
        self.reasons.insert(made.span.node, reason);
        true
    }
}
