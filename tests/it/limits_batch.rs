//! `POST /api/limits/ROUTE`: many keys in one call. Largest and negative grants.

use serde_json::{Value, json};

use crate::limits_api::ROUTES;
use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Largest number that both stores count exactly.
const MOST: u64 = (1 << 53) - 1;

fn call(gateway: &Gateway, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let path = format!("/api/limits/{path}");
    let response = Connection::open(gateway.admin).request(method, &path, &[], body.to_string().as_bytes());
    (response.status, response.json())
}

/// Sends a batch. Returns the keys with their remaining tokens.
fn batch(gateway: &Gateway, route: &str, body: &Value) -> Vec<(String, u64)> {
    let (status, answer) = call(gateway, "POST", route, body);
    assert_eq!(status, 200, "{answer}");
    let one = |key: &Value| (key["key"].as_str().unwrap().to_owned(), key["remaining"].as_u64().unwrap());
    answer["keys"].as_array().unwrap().iter().map(one).collect()
}

fn named<const N: usize>(keys: [(&str, u64); N]) -> Vec<(String, u64)> {
    keys.map(|(key, remaining)| (key.to_owned(), remaining)).into()
}

fn spend(gateway: &Gateway, route: &str, key: &str, times: usize) {
    let mut client = gateway.connect();
    for _ in 0..times {
        assert_eq!(client.request("GET", &format!("/{route}"), &[("x-key", key)], b"").status, 200);
    }
}

fn walk(gateway: &Gateway, store: &str) {
    spend(gateway, "sold", "ada", 2);
    spend(gateway, "plain", "ada", 3);
    spend(gateway, "listed", "al ice", 1);
    let keys =
        json!({"keys": [{"key": "ada"}, {"key": "bob", "grant": 10}, {"key": "ada", "grant": 3}, {"key": "al ice"}]});
    assert_eq!(batch(gateway, "sold", &keys), named([("ada", 0), ("bob", 12), ("ada", 3), ("al ice", 2)]), "in order");
    spend(gateway, "sold", "ada", 3);
    assert_eq!(
        batch(gateway, "plain", &json!({"keys": [{"key": "ada"}, {"key": "new"}]})),
        named([("ada", 2), ("new", 5)])
    );
    for (rule, left) in [("hourly", 3), ("sliding", 49)] {
        let keys = json!({"rule": rule, "keys": [{"key": "al ice"}]});
        assert_eq!(batch(gateway, "listed", &keys), named([("al ice", left)]));
    }
    let (_, answer) = call(gateway, "POST", "sold", &json!({"keys": [{"key": "bob"}]}));
    assert_eq!(
        (&answer["rule"], &answer["store"], &answer["algorithm"]),
        (&json!("sold"), &json!(store), &json!("quota"))
    );
    let many: Vec<_> = (0..256).map(|n| json!({"key": format!("many-{n}"), "grant": n})).collect();
    let left: Vec<u64> = batch(gateway, "sold", &json!({"keys": many})).into_iter().map(|(_, left)| left).collect();
    assert_eq!(left, (2..258).collect::<Vec<u64>>());

    // The largest grant is the same in both stores, and so is what is beyond.
    let left = |method, path: &str, body: Value| {
        let (status, answer) = call(gateway, method, path, &body);
        assert_eq!(status, 200, "{answer}");
        answer["limits"][0]["remaining"].as_u64().unwrap()
    };
    assert_eq!(left("PUT", "sold/rich", json!({"grant": MOST})), MOST);
    assert_eq!(left("PUT", "sold/rich", json!({"grant": MOST})), MOST);
    spend(gateway, "sold", "rich", 1);
    assert_eq!(batch(gateway, "sold", &json!({"keys": [{"key": "rich", "grant": MOST}]})), named([("rich", MOST)]));
    assert_eq!(left("PUT", "plain/ada", json!({"grant": MOST})), 5);
    assert_eq!(left("PUT", "sold/rich", json!({"remaining": MOST})), MOST);
    for (method, path, body, status, expected) in [
        ("PUT", "sold/rich", json!({"grant": MOST + 1}), 400, "at most 9007199254740991"),
        ("PUT", "sold/rich", json!({"remaining": MOST + 1}), 400, "at most 9007199254740991"),
        ("PUT", "sold/rich", json!({"grant": -1}), 400, "must not be negative"),
        ("PUT", "plain/ada", json!({"grant": -1}), 400, "must not be negative"),
        ("POST", "sold", json!({"keys": [{"key": "x", "grant": -1}]}), 400, "invalid value"),
        ("POST", "sold", json!({"keys": [{"key": "x", "grant": MOST + 1}]}), 400, "a grant is at most"),
        ("POST", "sold", json!({"keys": []}), 400, "1 to 256 keys"),
        ("POST", "sold", json!(5), 400, "expected a JSON object"),
        ("PUT", "sold/x", json!(5), 400, "expected a JSON object"),
        ("POST", "sold", json!({"keys": vec![json!({"key": "x"}); 257]}), 400, "got 257"),
        ("POST", "sold", json!({"keys": [{"key": ""}]}), 400, "a key is empty"),
        ("POST", "sold", json!({"keys": [{"key": "x", "remaining": 1}]}), 400, "unknown field"),
        ("POST", "plain", json!({"keys": [{"key": "x", "grant": 1}]}), 400, "only a `quota`"),
        ("POST", "listed", json!({"keys": [{"key": "x"}]}), 400, "`listed#hourly`, `listed#sliding`"),
        ("POST", "free", json!({"keys": [{"key": "x"}]}), 404, "has no rules"),
        ("POST", "nowhere", json!({"keys": [{"key": "x"}]}), 404, "unknown route"),
        ("POST", "sold/x", json!({"keys": [{"key": "x"}]}), 405, "methods of this path"),
    ] {
        let (actual, answer) = call(gateway, method, path, &body);
        let error = answer["detail"].as_str().unwrap();
        assert!(actual == status && error.contains(expected), "{method} {path}: {actual} {error}");
    }
    let origin = [("Origin", "http://rebound.example")];
    let refused =
        Connection::open(gateway.admin).request("POST", "/api/limits/sold", &origin, b"{\"keys\": [{\"key\": \"x\"}]}");
    assert_eq!(refused.status, 403, "a page of a browser");
}

#[test]
fn many_keys_in_memory_are_read_and_granted_in_one_call() {
    walk(&Gateway::start(ROUTES), "memory");
}

#[test]
fn many_keys_in_redis_are_read_and_granted_in_one_call() {
    let redis = Redis::start();
    let gateway = Gateway::start(&format!("redis: {{url: '{}', timeout: 5s}}\n{ROUTES}", redis.url()));
    walk(&gateway, "redis");
}
