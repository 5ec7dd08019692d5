//! Temporary overrides of limits: of a key and of a rule, in memory and in Redis.

mod algorithms;
mod by_key;
mod leases;
mod refused;

use serde_json::{Value, json};

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Rates are so low that nothing returns during a test.
const ROUTES: &str = "
routes:
  - id: orders
    uri: 'echo:'
    predicates: [Path=/orders]
    filters: [{name: RequestRateLimiter, args: {key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 5}}]
  - id: listed
    uri: 'echo:'
    predicates: [Path=/listed]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          limits:
            - {name: burst, algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 3}
            - {name: hourly, algorithm: fixed-window, limit: 4, window: 1h}
  - id: planned
    uri: 'echo:'
    predicates: [Path=/planned]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          replenish-rate: 1
          period: 1h
          burst-capacity: 2
          plan-resolver: 'header:x-plan'
          plans:
            gold: {replenish-rate: 1, period: 1h, burst-capacity: 4}
            silver: {replenish-rate: 1, period: 1h, burst-capacity: 4}
  - {id: local, uri: 'echo:', predicates: [Path=/local], filters: [{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1}}]}
";

fn start(head: &str) -> Gateway {
    let gateway = Gateway::start(&format!("{}{ROUTES}", settings(head)));
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    gateway
}

/// Two workers.
fn settings(head: &str) -> String {
    format!("server: {{address: 127.0.0.1, port: 0, workers: 2}}\naccess-log: {{output: off}}\n{head}")
}

/// A timeout that is long enough for busy machines: the fallback must not decide.
fn redis_settings(redis: &Redis) -> String {
    format!("redis: {{url: '{}', timeout: 5s}}\n", redis.url())
}

fn call(gateway: &Gateway, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = Connection::open(gateway.admin).request(method, path, &[], body.as_bytes());
    if answer.status >= 400 {
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{path} {body}");
    }
    (answer.status, answer.json())
}

fn set(gateway: &Gateway, path: &str, body: &Value) -> Value {
    let (status, answer) = call(gateway, "PUT", &format!("/api/overrides/{path}"), &body.to_string());
    assert_eq!(status, 200, "{path} {body}: {answer}");
    answer
}

fn remove(gateway: &Gateway, path: &str) -> u16 {
    call(gateway, "DELETE", &format!("/api/overrides/{path}"), "").0
}

/// Sends `count` requests of `key`, each on a connection of its own, so that each worker gets some. Returns the number
/// admitted.
fn admitted(gateway: &Gateway, path: &str, key: &str, count: usize) -> usize {
    let statuses = (0..count).map(|_| gateway.connect().request("GET", path, &[("x-key", key)], b"").status);
    statuses
        .filter(|status| match status {
            200 => true,
            429 => false,
            other => panic!("{other}"),
        })
        .count()
}

fn limit(gateway: &Gateway, path: &str) -> Value {
    let (status, answer) = call(gateway, "GET", &format!("/api/limits/{path}"), "");
    assert_eq!(status, 200, "{answer}");
    answer["limits"][0].clone()
}

fn walk(gateway: &Gateway) {
    let admitted = |path: &str, key: &str, count| admitted(gateway, path, key, count);
    assert_eq!(admitted("/orders", "al ice", 3), 3);
    let answer = set(gateway, "orders/al%20ice", &json!({"burst-capacity": 20, "expires-in": "1h"}));
    assert_eq!((&answer["key"], &answer["override"]), (&json!("al ice"), &json!({"burst-capacity": 20})));
    assert_eq!(admitted("/orders", "al ice", 30), 17, "3 of 20 were spent before, on every worker");
    assert_eq!(admitted("/orders", "bob", 9), 5, "another key has its own limit");
    let shown = limit(gateway, "orders/al%20ice");
    assert_eq!((&shown["remaining"], &shown["capacity"]), (&json!(0), &json!(20)), "{shown}");
    assert!(shown["override"]["expires-in-ms"].as_u64().unwrap() > 3_500_000, "{shown}");
    let explained = gateway.admin("/api/explain?url=/orders&header=X-Key:%20al%20ice").json();
    let live = &explained["route"]["filters"][0]["counted"][0]["live"];
    assert_eq!((&live["override"], &live["capacity"]), (&json!("numbers"), &json!(20)), "{explained}");
    let grant = call(gateway, "PUT", "/api/limits/orders/al%20ice", "{\"grant\": 15}").1;
    assert_eq!(grant["limits"][0]["remaining"], 15, "a grant counts under the override: {grant}");
    set(gateway, "orders/al%20ice", &json!({"burst-capacity": 8, "expires-in": "1h"}));
    assert_eq!(admitted("/orders", "al ice", 9), 3, "5 of 8 are spent: a stricter law applies at once");
    assert_eq!(remove(gateway, "orders/al%20ice"), 200);
    assert_eq!(remove(gateway, "orders/al%20ice"), 404);
    assert_eq!(admitted("/orders", "al ice", 9), 0, "what was spent stays spent");

    assert_eq!(admitted("/orders", "carol", 4), 4);
    set(gateway, "orders/carol", &json!({"unlimited": true, "expires-in": "1h"}));
    assert_eq!(admitted("/orders", "carol", 30), 30);
    set(gateway, "orders/carol", &json!({"block": true, "expires-in": "10m"}));
    let refused = gateway.connect().request("GET", "/orders", &[("x-key", "carol")], b"");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(refused.status == 429 && (590..=600).contains(&wait), "{refused:?}");
    assert_eq!(remove(gateway, "orders/carol"), 200);
    assert_eq!(admitted("/orders", "carol", 9), 1, "uncounted requests took nothing");

    // Several rules: the others still apply, and all of them count the request or none.
    set(gateway, "listed/dave", &json!({"rule": "burst", "unlimited": true, "expires-in": "1h"}));
    assert_eq!(admitted("/listed", "dave", 9), 4, "the window remains");
    assert_eq!(remove(gateway, "listed/dave?rule=burst"), 200);
    assert_eq!(limit(gateway, "listed/dave?rule=burst")["remaining"], 3, "an unlimited rule counts nothing");
    set(gateway, "listed/erin", &json!({"rule": "hourly", "block": true, "expires-in": "1h"}));
    assert_eq!(admitted("/listed", "erin", 3), 0);
    assert_eq!(limit(gateway, "listed/erin?rule=burst")["remaining"], 3, "a blocked request takes nothing");
    assert_eq!(remove(gateway, "listed/erin?rule=hourly"), 200);

    // Every key of a rule, and a key that has an override of its own.
    set(gateway, "orders", &json!({"burst-capacity": 2, "expires-in": "1h"}));
    set(gateway, "orders/frank", &json!({"burst-capacity": 7, "expires-in": "1h"}));
    assert_eq!((admitted("/orders", "grace", 9), admitted("/orders", "frank", 9)), (2, 7));
    let list = gateway.admin("/api/overrides").json();
    let keys: Vec<&str> = list.as_array().unwrap().iter().map(|it| it["key"].as_str().unwrap_or("every key")).collect();
    assert_eq!(keys, ["every key", "frank"], "{list}");
    assert_eq!((&list[1]["by"], &list[1]["override"]), (&json!("local"), &json!({"burst-capacity": 7})), "{list}");
    assert!(list[1]["expires-at"].as_str().unwrap().ends_with('Z'), "{list}");
    assert_eq!((remove(gateway, "orders"), remove(gateway, "orders/frank")), (200, 200));
    assert_eq!(admitted("/orders", "grace", 9), 3);
    assert_eq!(gateway.admin("/api/overrides").json(), json!([]));

    let line =
        gateway.logged("override of rule orders of route orders for key al ice: burst-capacity 20 for 1h, until ");
    assert!(line.contains("caller=") && line.contains("status=200"), "{line}");
    gateway.logged("override in effect");
    gateway.logged("override ended");
}

#[test]
fn overrides_in_memory_apply_at_once_and_keep_what_was_spent() {
    walk(&start(""));
}

#[test]
fn overrides_in_redis_apply_at_once_and_keep_what_was_spent() {
    let redis = Redis::start();
    walk(&start(&redis_settings(&redis)));
}

#[test]
fn other_gateways_follow_and_a_reload_changes_nothing() {
    let redis = Redis::start();
    for hash_keys in ["", ", hash-keys: true"] {
        redis.cli(&["FLUSHALL"]);
        let head = redis_settings(&redis).replace(", timeout", &format!("{hash_keys}, timeout"));
        let (first, second) = (start(&head), start(&head));
        assert_eq!((admitted(&first, "/orders", "alice", 4), admitted(&second, "/orders", "alice", 4)), (4, 1));
        let denied = || admitted(&second, "/orders", "alice", 1) == 0;
        assert!(denied());
        set(&first, "orders/alice", &json!({"burst-capacity": 50, "expires-in": "1h"}));
        let followed = eventually("the other gateway follows", || !denied());
        println!("followed after {followed:?}");
        let both = admitted(&first, "/orders", "alice", 30) + admitted(&second, "/orders", "alice", 30);
        assert_eq!(both, 44, "50 in all, on both gateways");
        assert_eq!(second.admin("/api/overrides").json()[0]["override"], json!({"burst-capacity": 50}));
        let stored = redis.cli(&["HGETALL", "tollgate.overrides"]);
        assert_eq!(stored.contains("alice"), hash_keys.is_empty(), "{stored}");

        second.reload(&format!("{}{}", settings(&head), ROUTES.replace("burst-capacity: 5}", "burst-capacity: 6}")));
        call(&second, "PUT", "/api/limits/orders/alice", "{\"grant\": 10}");
        let both = admitted(&first, "/orders", "alice", 9) + admitted(&second, "/orders", "alice", 9);
        assert_eq!(both, 10, "the override stays in effect");

        set(&second, "orders/alice", &json!({"block": true, "expires-in": "1h"}));
        call(&second, "PUT", "/api/limits/orders/alice", "{\"remaining\": 50}");
        eventually("the first gateway follows", || {
            first.admin("/api/overrides").json()[0]["override"]["block"] == true
        });
        assert_eq!((admitted(&first, "/orders", "alice", 5), admitted(&second, "/orders", "alice", 5)), (0, 0));
        assert_eq!(remove(&first, "orders/alice"), 200);
        eventually("the override ends everywhere", || second.admin("/api/overrides").json() == json!([]));
        assert_eq!(admitted(&second, "/orders", "bob", 9), 6, "the reloaded rule");
    }
}

#[test]
fn an_override_whose_rule_is_gone_is_marked_and_can_be_removed() {
    let gateway = start("");
    set(&gateway, "orders/alice", &json!({"burst-capacity": 20, "expires-in": "1h"}));
    set(&gateway, "orders/bob", &json!({"unlimited": true, "expires-in": "1h"}));
    assert_eq!(gateway.admin("/api/overrides").json()[0]["in-effect"], true);
    // Another algorithm: its numbers have other names.
    let algorithm = "algorithm: fixed-window, limit: 2, window: 1h}";
    let other = ROUTES.replacen("replenish-rate: 1, period: 1h, burst-capacity: 5}", algorithm, 1);
    gateway.reload(&format!("{}{other}", settings("")));
    let list = gateway.admin("/api/overrides").json();
    assert_eq!((&list[0]["in-effect"], &list[1]["in-effect"]), (&json!(false), &json!(true)), "{list}");
    assert_eq!((admitted(&gateway, "/orders", "alice", 5), admitted(&gateway, "/orders", "bob", 5)), (2, 5));

    gateway.reload(&format!("{}{}", settings(""), ROUTES.replace("id: orders", "id: shop")));
    let list = gateway.admin("/api/overrides").json();
    assert!(list.as_array().unwrap().iter().all(|it| it["in-effect"] == false), "{list}");
    assert_eq!((remove(&gateway, "orders"), remove(&gateway, "orders/carol")), (404, 404));
    assert_eq!((remove(&gateway, "orders/alice"), remove(&gateway, "orders/bob")), (200, 200));
    assert_eq!(gateway.admin("/api/overrides").json(), json!([]));
}

#[test]
fn hostile_keys_are_kept_apart() {
    let redis = Redis::start();
    for head in [String::new(), redis_settings(&redis)] {
        let gateway = start(&head);
        let keys = ["v", "%22%5D", "a%2Fb", "a|b:c", "%00%01", "%FF%FE", "%25", &"x".repeat(1024)];
        for key in keys {
            set(&gateway, &format!("orders/{key}"), &json!({"block": true, "expires-in": "1h"}));
        }
        assert_eq!(gateway.admin("/api/overrides").json().as_array().unwrap().len(), keys.len());
        assert_eq!(limit(&gateway, "orders/%FF%FE")["override"]["block"], true);
        assert_eq!(limit(&gateway, "orders/%FF")["override"], Value::Null);
        assert_eq!(admitted(&gateway, "/orders", "a|b:c", 2) + admitted(&gateway, "/orders", "v", 2), 0);
        assert_eq!(admitted(&gateway, "/orders", "a|b", 2), 2);
        let long = format!("/api/overrides/orders/{}", "x".repeat(1025));
        let (status, problem) = call(&gateway, "PUT", &long, "{\"block\": true, \"expires-in\": \"1h\"}");
        assert!(status == 400 && problem["detail"].as_str().unwrap().contains("1024 bytes"), "{problem}");
        for key in keys {
            assert_eq!(remove(&gateway, &format!("orders/{key}")), 200, "{key}");
        }
    }
}

#[test]
fn an_override_that_ends_during_a_burst_leaves_its_debt() {
    let redis = Redis::start();
    for head in [String::new(), redis_settings(&redis)] {
        let gateway = start(&head);
        set(&gateway, "orders/alice", &json!({"burst-capacity": 20, "expires-in": "2s"}));
        let mut count = 0;
        while gateway.admin("/api/overrides").json() != json!([]) {
            count += admitted(&gateway, "/orders", "alice", 10);
        }
        count += admitted(&gateway, "/orders", "alice", 10);
        assert_eq!(count, 20, "the larger law in all, and nothing more when the smaller one returns");
        assert_eq!(limit(&gateway, "orders/alice")["capacity"], 5);
        gateway.logged("override ended");
    }
}

#[test]
fn without_redis_nothing_is_changed_and_known_overrides_stay() {
    let mut redis = Redis::start();
    let head = redis_settings(&redis).replace("timeout: 5s", "timeout: 500ms");
    let gateway = start(&head);
    set(&gateway, "orders/alice", &json!({"block": true, "expires-in": "1h"}));
    redis.kill();
    let body = json!({"burst-capacity": 9, "expires-in": "1h"}).to_string();
    let mut detail = String::new();
    eventually("the connection is lost", || {
        let (status, problem) = call(&gateway, "PUT", "/api/overrides/orders/bob", &body);
        detail = problem["detail"].as_str().unwrap().to_owned();
        assert_eq!(status, 503, "{problem}");
        detail.contains("nothing was changed")
    });
    assert_eq!(call(&gateway, "DELETE", "/api/overrides/orders/alice", "").0, 503);
    let list = gateway.admin("/api/overrides").json();
    assert!(list.as_array().unwrap().len() == 1 && list[0]["key"] == "alice", "{list}");
    assert_eq!(admitted(&gateway, "/orders", "alice", 3), 0, "the known override stays");
    assert_eq!(admitted(&gateway, "/orders", "bob", 9), 5, "in memory, by the configured rule");
}
