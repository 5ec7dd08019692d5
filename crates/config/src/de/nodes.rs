//! Nodes by their place.

use std::collections::BTreeMap;

use crate::de::spanned::NodeRef;
use crate::yaml::{Kind, Node};

/// Index of the nodes below a root, for fields that are read as a [`NodeRef`].
pub(crate) struct Nodes<'n>(BTreeMap<u32, &'n Node>);

impl<'n> Nodes<'n> {
    pub(crate) fn new(root: &'n Node) -> Self {
        let mut nodes = BTreeMap::new();
        index(root, &mut nodes);
        Self(nodes)
    }

    pub(crate) fn get(&self, node: NodeRef) -> Option<&'n Node> {
        self.0.get(&node.0.place).copied()
    }
}

fn index<'n>(node: &'n Node, into: &mut BTreeMap<u32, &'n Node>) {
    into.insert(node.span.place, node);
    match &node.kind {
        Kind::Seq(items) => items.iter().for_each(|item| index(item, into)),
        Kind::Map(entries) => entries.iter().for_each(|(_, value)| index(value, into)),
        Kind::Null | Kind::Scalar(_) => {}
    }
}
