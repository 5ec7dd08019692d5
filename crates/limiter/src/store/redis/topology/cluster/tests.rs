#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::store::redis::connection::Connector;
use crate::store::redis::no_advice;

fn node(name: &str) -> Arc<Node> {
    let settings = RedisSettings::new("redis://127.0.0.1");
    let (connector, info) = Connector::new(&settings).unwrap();
    let context = ConnectionContext::new(connector, Arc::default(), false, &settings, ("", no_advice));
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
