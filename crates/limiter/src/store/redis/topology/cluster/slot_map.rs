//! Map from slots to nodes.

use std::sync::Arc;

use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::topology::node::Node;

/// Nodes that serve slots, and the node of each slot.
#[derive(Clone)]
pub(super) struct SlotMap {
    nodes: Vec<Arc<Node>>,
    /// Index of each slot's node in `nodes`.
    slots: Box<[u16]>,
}

/// Index of a slot without a node.
const UNASSIGNED: u16 = u16::MAX;

impl SlotMap {
    /// Map without nodes.
    pub(super) fn empty() -> Self {
        Self { nodes: Vec::new(), slots: vec![UNASSIGNED; usize::from(HashSlot::COUNT)].into() }
    }

    /// Node that serves `slot`.
    #[inline]
    pub(super) fn node(&self, slot: HashSlot) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.slots[usize::from(slot.number())]))
    }

    /// All nodes that serve a slot, or did when the map was last replaced.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(super) fn has(&self, node: &Arc<Node>) -> bool {
        self.nodes.iter().any(|member| Arc::ptr_eq(member, node))
    }

    /// Assigns `slots` to `node`.
    pub(super) fn assign(&mut self, slots: impl IntoIterator<Item = HashSlot>, node: &Arc<Node>) {
        let position = self.nodes.iter().position(|member| Arc::ptr_eq(member, node));
        let index = position.unwrap_or_else(|| {
            self.nodes.push(Arc::clone(node));
            self.nodes.len() - 1
        });
        for slot in slots {
            self.slots[usize::from(slot.number())] = u16::try_from(index).unwrap_or(UNASSIGNED);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::store::redis::breaker::Breakers;
    use crate::store::redis::connection::{ConnectionContext, Connector};
    use crate::store::redis::connection_settings::RedisSettings;
    use crate::store::redis::topology::node::Address;

    fn node(name: &str) -> Arc<Node> {
        let settings = RedisSettings::new("redis://127.0.0.1");
        let (connector, info) = Connector::new(&settings).unwrap();
        let context = ConnectionContext::new(connector, Arc::default(), false, &settings, "");
        let address = Address::Fixed(Box::new(info.unwrap()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Node::start(name.into(), address, (0, false), &Breakers::default(), &Arc::new(context), runtime.handle())
    }

    #[test]
    fn a_slot_has_the_node_that_it_was_assigned_to_last() {
        let slot = |number| HashSlot::new(number).unwrap();
        let (a, b, mut map) = (node("a"), node("b"), SlotMap::empty());
        let name = |map: &SlotMap, number| map.node(slot(number)).map(|node| node.name.clone());
        assert_eq!(name(&map, 0), None);
        map.assign((0..100).map(slot), &a);
        map.assign((100..HashSlot::COUNT).map(slot), &b);
        assert_eq!([99, 100, 16_383].map(|number| name(&map, number).unwrap()), ["a", "b", "b"]);
        map.assign([slot(99)], &b);
        assert_eq!([98, 99].map(|number| name(&map, number).unwrap()), ["a", "b"]);
        assert_eq!(map.nodes().len(), 2);
        assert!(map.has(&a) && !map.has(&node("a")));
    }
}
