//! The most frequent keys of limiters: `/api/top` and `tollgate top`.

use std::process::Command;

use serde_json::Value;

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE};
use crate::support::redis::Redis;

const ROUTES: &str = "
routes:
  - id: orders
    uri: 'echo:'
    predicates: [Path=/orders]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          limits:
            - {name: hourly, algorithm: fixed-window, limit: 2, window: 1h}
            - {name: daily, algorithm: fixed-window, limit: 100, window: 1h}
  - id: observed
    uri: 'echo:'
    predicates: [Path=/observed]
    filters: [{name: RequestRateLimiter, args: {key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 1, mode: observe}}]
";

fn ask(gateway: &Gateway, path: &str, key: &str, times: usize) {
    let mut client = gateway.connect();
    for _ in 0..times {
        client.request("GET", path, &[("x-key", key)], b"");
    }
}

/// Route, rule, and the keys with their counts.
type RuleCounts = (String, String, Vec<(String, u64)>);

/// Returns route, rule and the keys with their counts of each rule.
fn top(gateway: &Gateway, query: &str) -> Vec<RuleCounts> {
    let answer = gateway.admin(&format!("/api/top?{query}")).json();
    assert_eq!(answer["complete"], true, "{answer}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let key = |key: &Value| (text(&key["key"]), key["count"].as_u64().unwrap());
    let rule = |rule: &Value| {
        (text(&rule["route"]), text(&rule["rule"]), rule["keys"].as_array().unwrap().iter().map(key).collect())
    };
    answer["rules"].as_array().unwrap().iter().map(rule).collect()
}

fn counts(gateway: &Gateway) {
    ask(gateway, "/orders", "alice", 12);
    ask(gateway, "/orders", "bob", 5);
    ask(gateway, "/orders", "carol", 1);
    ask(gateway, "/observed", "alice", 4);
    let rule = |route: &str, rule: &str, keys: &[(&str, u64)]| {
        (route.to_owned(), rule.to_owned(), keys.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect())
    };
    // The rule that denies is named, the other one is not.
    assert_eq!(top(gateway, ""), [rule("orders", "hourly", &[("alice", 10), ("bob", 3)])]);
    assert_eq!(top(gateway, "verdict=observed"), [rule("observed", "observed", &[("alice", 3)])]);
    let daily = rule("orders", "daily", &[("alice", 2), ("bob", 2), ("carol", 1)]);
    assert_eq!(top(gateway, "verdict=allowed&route=orders&rule=daily"), [daily]);
    for verdict in ["all", "asked"] {
        let query = format!("verdict={verdict}&rule=hourly&limit=1");
        assert_eq!(top(gateway, &query), [rule("orders", "hourly", &[("alice", 12)])]);
    }
    assert_eq!(top(gateway, "route=none"), []);
}

#[test]
fn keys_are_counted_by_rule_and_verdict() {
    let gateway = Gateway::start(ROUTES);
    counts(&gateway);
    for query in ["verdict=every", "limit=0", "limit=101", "limit=x", "key=a"] {
        let refused = gateway.admin(&format!("/api/top?{query}"));
        assert_eq!(
            (refused.status, refused.header("content-type")),
            (400, Some("application/problem+json")),
            "{query}"
        );
    }
    gateway.reload(ROUTES);
    eventually("all workers have reloaded", || {
        ask(&gateway, "/orders", "alice", 1);
        top(&gateway, "")[0].2[0].1 > 10
    });
}

#[test]
fn keys_that_redis_denies_are_counted() {
    let redis = Redis::start();
    let gateway =
        Gateway::start(&format!("redis: {{url: '{}', timeout: 5s, denial-cache: false}}\n{ROUTES}", redis.url()));
    counts(&gateway);
}

#[test]
fn the_counts_of_all_workers_are_merged() {
    let gateway = Gateway::start(&format!("server: {{address: 127.0.0.1, workers: 3}}\n{ROUTES}"));
    for _ in 0..30 {
        ask(&gateway, "/orders", "alice", 2);
    }
    assert_eq!(top(&gateway, "")[0].2, [("alice".to_owned(), 58)]);
}

#[test]
fn hashes_replace_key_ids_in_the_api_and_in_the_log() {
    let hashing = "management: {hash-keys: true, hash-secret: of-at-least-16-bytes}\n";
    let gateway = Gateway::start(&format!("{hashing}{ROUTES}"));
    ask(&gateway, "/orders", "alice", 4);
    let answer = gateway.admin("/api/top").text();
    assert!(answer.contains("\"hashed\": true") && !answer.contains("alice"), "{answer}");
    let hash = top(&gateway, "")[0].2[0].0.clone();
    assert!(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    let reset = Connection::open(gateway.admin).request("DELETE", "/api/limits/orders/alice?rule=hourly", &[], b"");
    assert_eq!((reset.status, reset.json()["key"].as_str()), (200, Some(hash.as_str())));
    gateway.logged(&format!("change=\"reset of key {hash} under rule `hourly` of route orders\""));
    assert!(!gateway.log().contains("alice"), "{}", gateway.log());
    let second = Gateway::start(&format!("{hashing}{ROUTES}"));
    ask(&second, "/orders", "alice", 4);
    assert_eq!(top(&second, "")[0].2[0].0, hash, "the same secret gives the same hash");
    gateway.reload(ROUTES);
    assert_eq!(top(&gateway, "")[0].2[0].0, "alice", "a reload applies the setting");
}

#[test]
fn the_command_prints_a_table() {
    let gateway = Gateway::start(ROUTES);
    ask(&gateway, "/orders", "al ice", 12);
    let run = |arguments: &[&str]| {
        let output = Command::new(TOLLGATE).arg("top").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let address = gateway.admin.to_string();
    let (code, out, _) = run(&[&address]);
    assert_eq!(code, Some(0));
    let line = out.lines().find(|line| line.starts_with("orders ")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["orders", "hourly", "al", "ice", "10", "0", "100.0", "%"]);
    let (code, out, _) = run(&[&address, "--verdict", "observed", "--route", "a&b"]);
    assert!(code == Some(0) && out.starts_with("no observed requests in the last "), "{out}");
    for verdict in ["all", "asked"] {
        let (_, out, err) = run(&[&address, "--verdict", verdict]);
        assert!(out.starts_with("all requests in the last "), "{out}{err}");
    }
    let help = run(&["--help"]).1;
    assert!(help.contains("- all:") && !help.contains("asked"), "{help}");
    let (_, out, _) = run(&[&address, "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["rules"][0]["total"], 10);
    let (code, _, err) = run(&[&address, "--limit", "0"]);
    assert!(code == Some(1) && err.contains("`limit` must be a number from 1 to 100"), "{err}");
    let (code, _, err) = run(&[&crate::support::free_address().to_string()]);
    assert!(code == Some(1) && err.starts_with("tollgate: no response from 127.0.0.1:"), "{err}");
}
