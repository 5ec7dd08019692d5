//! Nodes by their numbers.

use std::collections::BTreeMap;

use crate::de::spanned::NodeRef;
use crate::yaml::{Node, NodeKind};

/// Index of the nodes below a root, for fields that are read as a [`NodeRef`].
pub(crate) struct Nodes<'n>(BTreeMap<u32, &'n Node>);

impl<'n> Nodes<'n> {
    pub(crate) fn new(root: &'n Node) -> Self {
        let mut nodes = BTreeMap::new();
        index(root, &mut nodes);
        Self(nodes)
    }

    pub(crate) fn get(&self, node: NodeRef) -> Option<&'n Node> {
        self.0.get(&node.0.node).copied()
    }
}

fn index<'n>(node: &'n Node, into: &mut BTreeMap<u32, &'n Node>) {
    into.insert(node.span.node, node);
    match &node.kind {
        NodeKind::Seq(items) => items.iter().for_each(|item| index(item, into)),
        NodeKind::Map(entries) => entries.iter().for_each(|(_, value)| index(value, into)),
        NodeKind::Null | NodeKind::Scalar(_) => {}
    }
}
