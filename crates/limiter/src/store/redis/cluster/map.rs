//! Which server keeps which slot.

use std::sync::Arc;

use super::super::hash_slot::HashSlot;
use super::super::node::Node;

/// The servers that keep slots, and each slot's.
#[derive(Clone)]
pub(super) struct Map {
    nodes: Vec<Arc<Node>>,
    /// By slot, the place of its server among all.
    slots: Box<[u16]>,
}

/// The place of a server that is not there.
const NOBODY: u16 = u16::MAX;

impl Map {
    /// Nobody keeps anything.
    pub(super) fn empty() -> Self {
        Self { nodes: Vec::new(), slots: vec![NOBODY; usize::from(HashSlot::COUNT)].into() }
    }

    /// The server that keeps `slot`.
    #[inline]
    pub(super) fn node(&self, slot: HashSlot) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.slots[usize::from(slot.number())]))
    }

    /// All that keep a slot, or did when all was last learnt anew.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(super) fn has(&self, node: &Arc<Node>) -> bool {
        self.nodes.iter().any(|known| Arc::ptr_eq(known, node))
    }

    /// From now on `node` keeps `slots`.
    pub(super) fn assign(&mut self, slots: impl IntoIterator<Item = HashSlot>, node: &Arc<Node>) {
        let known = self.nodes.iter().position(|known| Arc::ptr_eq(known, node));
        let place = known.unwrap_or_else(|| {
            self.nodes.push(Arc::clone(node));
            self.nodes.len() - 1
        });
        for slot in slots {
            self.slots[usize::from(slot.number())] = u16::try_from(place).unwrap_or(NOBODY);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use redis::IntoConnectionInfo;

    use super::super::super::node::Address;
    use super::*;

    fn node(name: &str) -> Arc<Node> {
        let info = "redis://127.0.0.1".into_connection_info().unwrap();
        Arc::new(Node::new(name.into(), Address::Fixed(Box::new(info)), 1, Arc::default()))
    }

    #[test]
    fn a_slot_has_the_node_that_it_was_given_to_last() {
        let slot = |number| HashSlot::new(number).unwrap();
        let (a, b, mut map) = (node("a"), node("b"), Map::empty());
        let name = |map: &Map, number| map.node(slot(number)).map(|node| node.name.clone());
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
