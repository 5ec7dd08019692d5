//! Copies of nodes for aliases, and the bounds of a tree.

use crate::yaml::node::{Node, NodeKind};

/// Nodes of a file at most, and of a configuration: a bound for aliases that multiply each other, and for the time of checks.
pub const MAX_NODES: usize = 250_000;
/// Depth of lists and maps at most.
pub(super) const MAX_DEPTH: usize = 128;

/// Bytes of text that count as one more node: a long text may be repeated, too.
const TEXT_BYTES: usize = 32;

pub(super) const TOO_LARGE: &str =
    "more than 250,000 nodes, with those that anchors and aliases repeat; 32 bytes of text count as one";
pub(super) const TOO_DEEP: &str = "recursion limit exceeded";

/// Returns the number of nodes that `text` counts as, beside its own.
pub(super) fn text_nodes(text: &str) -> usize {
    text.len() / TEXT_BYTES
}

/// Returns a copy of `node` for an alias at `depth`, with nodes of its own, which it counts. The error says what is exceeded.
pub(super) fn copied(node: &Node, depth: usize, nodes: &mut usize) -> Result<Node, &'static str> {
    *nodes += 1 + match &node.kind {
        NodeKind::Scalar(text) => text_nodes(text),
        NodeKind::Map(entries) => entries.iter().map(|(key, _)| text_nodes(key)).sum(),
        NodeKind::Null | NodeKind::Seq(_) => 0,
    };
    if *nodes > MAX_NODES {
        return Err(TOO_LARGE);
    }
    let kind = match &node.kind {
        NodeKind::Seq(_) | NodeKind::Map(_) if depth >= MAX_DEPTH => return Err(TOO_DEEP),
        NodeKind::Seq(items) => {
            let items: Result<_, _> = items.iter().map(|item| copied(item, depth + 1, nodes)).collect();
            NodeKind::Seq(items?)
        }
        NodeKind::Map(entries) => {
            let mut copies = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                copies.push((key.clone(), copied(value, depth + 1, nodes)?));
            }
            NodeKind::Map(copies)
        }
        kind => kind.clone(),
    };
    Ok(Node { span: node.span.again(), kind })
}
