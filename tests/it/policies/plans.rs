//! Plans: resolution, and changes of a plan.

use super::{always_in_redis, ask, in_redis, yaml};
use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

const PLANS: &str = "key-resolver: 'header:x-key', default-plan: free, plans: {\
    free: {replenish-rate: 1, period: 1h, burst-capacity: 2}, \
    gold: {replenish-rate: 1, period: 1h, burst-capacity: 5}, staff: unlimited}";

/// Returns the plan of `key` on route `a`, as the admin port shows it.
fn shown(gateway: &Gateway, key: &str) -> serde_json::Value {
    gateway.admin(&format!("/api/limits/a/{key}")).json()["plan"].clone()
}

/// Sends eight requests; returns the number admitted.
fn passed(client: &mut Connection, headers: &[(&str, &str)]) -> usize {
    (0..8).filter(|_| client.request("GET", "/a", headers, b"").status == 200).count()
}

#[test]
fn a_plan_is_resolved_from_a_header_or_a_table() {
    let gateway = Gateway::start(&yaml(&format!("{PLANS}, plan-resolver: 'header:x-plan'")));
    let mut client = gateway.connect();
    for (plan, most) in [("free", 2), ("gold", 5), ("staff", 8), ("unknown", 2), ("", 2)] {
        let key = format!("key-{plan}");
        assert_eq!(passed(&mut client, &[("x-key", &key), ("x-plan", plan)]), most, "{plan}");
    }
    assert_eq!(passed(&mut client, &[("x-key", "key-free"), ("x-plan", "gold")]), 3, "spent tokens stay spent");
    assert!(gateway.admin("/api/limits/a/key-free").json().get("plan").is_none(), "the request names it");
    let gateway = Gateway::start(&yaml(&format!("{PLANS}, plan-resolver: {{table: {{ada: gold, 10.0.0.1: staff}}}}")));
    let mut client = gateway.connect();
    for (key, most) in [("ada", 5), ("10.0.0.1", 8), ("bob", 2)] {
        assert_eq!(passed(&mut client, &[("x-key", key)]), most, "{key}");
    }
    let denied = |plan: &str| {
        let labels = ["verdict=\"denied\"", &format!("plan=\"{plan}\"")];
        gateway.metric("tollgate_limiter_decisions_total", &labels)
    };
    assert_eq!((denied("gold"), denied("free"), denied("")), (3.0, 6.0, 0.0), "the plan is a label");
    assert_eq!(
        [shown(&gateway, "ada"), shown(&gateway, "10.0.0.1"), shown(&gateway, "bob")],
        ["gold", "staff", "free"]
    );
}

#[test]
fn without_a_default_plan_the_rule_of_the_limiter_applies() {
    let arguments = "key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 1, \
        plan-resolver: {table: {ada: gold}}, plans: {gold: {limits: [\
        {name: hourly, replenish-rate: 1, period: 1h, burst-capacity: 4}, {name: daily, algorithm: fixed-window, limit: 3, window: 1d}]}}";
    let gateway = Gateway::start(&yaml(arguments));
    let mut client = gateway.connect();
    assert_eq!([passed(&mut client, &[("x-key", "ada")]), passed(&mut client, &[("x-key", "bob")])], [3, 1]);
    assert_eq!((shown(&gateway, "ada"), shown(&gateway, "bob")), ("gold".into(), serde_json::Value::Null));
    assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["rule=\"daily\"", "\"denied\""]), 5.0);
}

#[test]
fn plans_in_redis_are_read_there_and_a_change_takes_effect() {
    let mut redis = Redis::start();
    redis.cli(&["HSET", "plans", "ada", "gold"]);
    let resolver = "plan-resolver: {redis-hash: plans, cache: 300ms}, store: memory";
    let gateway = Gateway::start(&in_redis(&redis, &format!("{PLANS}, {resolver}")));
    let mut client = gateway.connect();
    assert_eq!([passed(&mut client, &[("x-key", "ada")]), passed(&mut client, &[("x-key", "bob")])], [5, 2]);
    assert_eq!([shown(&gateway, "ada"), shown(&gateway, "bob")], ["gold", "free"]);
    redis.cli(&["HSET", "plans", "bob", "gold"]);
    eventually("the plan is raised", || ask(&mut client, "bob").status == 200);
    assert_eq!(passed(&mut client, &[("x-key", "bob")]), 2, "three more in all");
    redis.cli(&["DEL", "plans"]);
    redis.cli(&["SET", "plans", "not a hash"]);
    eventually("without a plan the default holds", || passed(&mut client, &[("x-key", "carl")]) == 0);
    redis.kill();
    eventually("without redis the default plan holds", || {
        let key = format!("key-{:?}", std::time::Instant::now());
        passed(&mut client, &[("x-key", &key)]) == 2
    });
}

#[test]
fn a_plan_is_cached() {
    let redis = Redis::start();
    redis.cli(&["HSET", "plans", "ada", "gold"]);
    let gateway = Gateway::start(&always_in_redis(&redis, &format!("{PLANS}, plan-resolver: {{redis-hash: plans}}")));
    let mut client = gateway.connect();
    redis.cli(&["HSET", "plans", "warm", "gold"]);
    passed(&mut client, &[("x-key", "warm")]);
    redis.cli(&["CONFIG", "RESETSTAT"]);
    assert_eq!(passed(&mut client, &[("x-key", "ada")]), 5);
    let stats = redis.cli(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_hget:calls=1,") && stats.contains("cmdstat_evalsha:calls=8,"), "{stats}");
}

#[test]
fn ten_an_hour_raised_to_twenty_after_ten_admits_exactly_ten_more() {
    let redis = Redis::start();
    let rule = |limit: u32| {
        format!(
            "key-resolver: 'header:x-key', limits: [{{name: hourly, algorithm: fixed-window, limit: {limit}, window: 1h}}]"
        )
    };
    let yamls: [&dyn Fn(u32) -> String; 2] = [&|limit| yaml(&rule(limit)), &|limit| in_redis(&redis, &rule(limit))];
    for yaml in yamls {
        let gateway = Gateway::start(&yaml(10));
        let count = || (0..25).filter(|_| ask(&mut gateway.connect(), "k").status == 200).count();
        assert_eq!(count(), 10);
        gateway.reload(&yaml(20));
        eventually("the new limit holds", || {
            ask(&mut gateway.connect(), "other").header("x-ratelimit-burst-capacity") == Some("20")
        });
        assert_eq!(count(), 10, "exactly ten more");
    }
}
