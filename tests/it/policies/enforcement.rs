//! `enforce-percent`: a share of the keys.

use super::{ask, in_redis, yaml};
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::Upstream;

#[test]
fn a_percentage_of_keys_is_enforced_the_same_on_every_gateway() {
    let arguments = "key-resolver: 'header:x-key', replenish-rate: 1, burst-capacity: 0, enforce-percent: 30";
    let gateways = [Gateway::start(&yaml(arguments)), Gateway::start(&yaml(arguments))];
    let mut clients = gateways.each_ref().map(Gateway::connect);
    let mut denied = 0;
    for n in 0..400 {
        let [one, other] = clients.each_mut().map(|client| ask(client, &format!("user-{n}")).status);
        assert_eq!(one, other, "user-{n}");
        denied += u32::from(one == 429);
    }
    assert!((85..155).contains(&denied), "{denied} of 400");
}

#[test]
fn requests_without_a_valid_key_are_refused_if_a_share_of_the_keys_is_enforced() {
    let redis = Redis::start();
    let arguments = "key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 1, block: [foe]";
    let in_list = "key-resolver: 'header:x-key', block: [foe], limits: [{name: one, replenish-rate: 1, period: 1h, \
                   burst-capacity: 1, enforce-percent: 1}, {name: two, algorithm: fixed-window, limit: 9, window: 1h, mode: observe}]";
    let share = format!("{arguments}, enforce-percent: 1");
    for yaml in [yaml(&share), in_redis(&redis, &share), yaml(in_list), in_redis(&redis, in_list)] {
        let upstream = Upstream::ok("reached");
        let gateway = Gateway::start(&yaml.replace("echo:", &upstream.uri()));
        let mut client = gateway.connect();
        let mut status = |headers: &[(&str, &str)]| client.request("GET", "/a", headers, b"").status;
        assert_eq!(status(&[]), 403, "no key: {yaml}");
        assert_eq!(status(&[("x-key", "a"), ("x-key", "b")]), 403, "two keys: {yaml}");
        assert_eq!(status(&[("x-key", "")]), 403, "an empty key: {yaml}");
        assert_eq!(status(&[("x-key", "foe")]), 403, "a blocked key: {yaml}");
        assert_eq!(upstream.requests().len(), 0);
    }
    let unkeyed = |more: &str| Gateway::start(&yaml(&format!("{arguments}, {more}"))).get("/a").status;
    assert_eq!(unkeyed("enforce-percent: 1, deny-empty-key: false"), 200, "as with `enforce`");
    assert_eq!(unkeyed("mode: observe"), 200);
}
