//! `/api/limits`: reads, sets, grants and resets the budget of a key.

use serde_json::{Value, json};

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Routes with one rule, with several, with a quota, and with none.
pub const ROUTES: &str = "
routes:
  - id: plain
    uri: 'echo:'
    predicates: [Path=/plain]
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
            - {name: sliding, algorithm: sliding-window-counter, limit: 50, window: 1h}
  - id: sold
    uri: 'echo:'
    predicates: [Path=/sold]
    filters: [{name: RequestRateLimiter, args: {key-resolver: 'header:x-key', algorithm: quota, allowance: 2}}]
  - {id: free, uri: 'echo:', predicates: [Path=/free]}
";

struct Admin<'g>(&'g Gateway);

impl Admin<'_> {
    fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let response = Connection::open(self.0.admin).request(method, path, &[], body.as_bytes());
        (response.status, response.json())
    }

    /// Calls `/api/limits/{path}`, and returns the remaining tokens of each rule.
    fn left(&self, method: &str, path: &str, body: &str) -> Vec<u64> {
        let (status, answer) = self.call(method, &format!("/api/limits/{path}"), body);
        assert_eq!(status, 200, "{answer}");
        answer["limits"].as_array().unwrap().iter().map(|limit| limit["remaining"].as_u64().unwrap()).collect()
    }
}

fn walk(gateway: &Gateway, store: &str) {
    let admin = Admin(gateway);
    let ask = |route: &str, times: usize| -> Vec<u16> {
        let mut client = gateway.connect();
        let path = format!("/{route}");
        (0..times).map(|_| client.request("GET", &path, &[("x-key", "al ice")], b"").status).collect()
    };
    assert_eq!(ask("free", 1), [200], "the workers are connected");
    assert_eq!(admin.left("GET", "plain/al%20ice", ""), [5], "no request yet");
    assert_eq!(ask("plain", 6), [200, 200, 200, 200, 200, 429]);
    assert_eq!(admin.left("GET", "plain/al%20ice", ""), [0]);
    let (_, state) = admin.call("GET", "/api/limits/plain/al%20ice", "");
    assert!(state["limits"][0]["retry-after-ms"].as_u64().is_some_and(|ms| ms > 0), "{state}");
    assert_eq!(admin.left("PUT", "plain/al%20ice", r#"{"grant": 2}"#), [2]);
    assert_eq!(ask("plain", 3), [200, 200, 429], "the denial is not remembered longer than it holds");
    assert_eq!(admin.left("PUT", "plain/al%20ice", r#"{"remaining": 4}"#), [4]);
    assert_eq!(admin.left("PUT", "plain/al%20ice", r#"{"remaining": 1}"#), [1]);
    assert_eq!(ask("plain", 2), [200, 429]);
    assert_eq!(admin.left("DELETE", "plain/al%20ice", ""), [5]);
    assert_eq!(ask("plain", 1), [200]);

    assert_eq!(ask("listed", 4), [200, 200, 200, 429]);
    assert_eq!(admin.left("GET", "listed/al%20ice", ""), [0, 1, 47]);
    assert_eq!(admin.left("PUT", "listed/al%20ice", r#"{"rule": "burst", "grant": 2}"#), [2]);
    assert_eq!(ask("listed", 2), [200, 429], "the other rule holds");
    assert_eq!(admin.left("DELETE", "listed/al%20ice", ""), [3, 4, 50]);

    assert_eq!(ask("sold", 3), [200, 200, 429]);
    assert_eq!(admin.left("PUT", "sold/al%20ice", r#"{"grant": 10}"#), [10]);
    assert_eq!(ask("sold", 1), [200]);
    assert_eq!(admin.left("PUT", "sold/al%20ice", r#"{"remaining": 3}"#), [3]);
    assert_eq!(admin.left("DELETE", "sold/al%20ice", ""), [2]);

    let (_, one) = admin.call("GET", "/api/limits/sold/bob", "");
    let limit = json!({"route": "sold", "rule": "sold", "key-resolver": "header:x-key", "algorithm": "quota", "capacity": 2, "limit": "quota, 2 in total", "numbers": {"allowance": 2}, "mode": "enforce", "store": store,
        "remaining": 2, "reset-after-ms": one["limits"][0]["reset-after-ms"], "retry-after-ms": 0});
    assert_eq!(one, json!({"route": "sold", "key": "bob", "limits": [limit]}));
}

#[test]
fn limits_in_memory_are_read_set_granted_and_reset() {
    let gateway = Gateway::start(ROUTES);
    walk(&gateway, "memory");
    let admin = Admin(&gateway);
    let (status, rules) = admin.call("GET", "/api/limits", "");
    let names: Vec<&str> = rules.as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!((status, names), (200, vec!["plain", "burst", "hourly", "sliding", "sold"]));
    assert_eq!(rules[2]["limit"], "fixed-window, 4 per 1h", "a rate has its period");
    let of = |route: &str| admin.call("GET", &format!("/api/limits?route={route}"), "").1;
    assert_eq!((of("listed"), of("free"), of("")), (json!(rules.as_array().unwrap()[1..4]), json!([]), rules.clone()));
    for (method, path, body, status, expected) in [
        ("GET", "/api/limits?route=nowhere", "", 404, "unknown route `nowhere`"),
        ("GET", "/api/limits?routes=plain", "", 400, "unknown query parameter `routes`; use route"),
        ("GET", "/api/limits/nowhere/x", "", 404, "unknown route `nowhere`"),
        ("GET", "/api/limits/free/x", "", 404, "has no rules"),
        ("PUT", "/api/limits/listed/x", r#"{"rule": "daily", "grant": 1}"#, 404, "no rule `daily`"),
        ("GET", "/api/limits/listed/x?rule=burst&plan=gold", "", 404, "has no rule `burst` of a plan `gold`"),
        ("PUT", "/api/limits/plain/x", r#"{"remaining": -1}"#, 400, "the body must be"),
        ("PUT", "/api/limits/plain/x", r#"{"remaining": 1, "grant": 1}"#, 400, "the body must be"),
        ("PUT", "/api/limits/listed/x", r#"{"grant": 1}"#, 400, "`listed#burst`, `listed#hourly`, `listed#sliding`"),
        ("GET", "/api/limits/listed/x?rules=burst", "", 400, "unknown query parameter `rules`"),
        ("PUT", "/api/limits/plain/x", "{", 400, "the body must be"),
        ("PUT", "/api/limits/plain/x", r#"{"tokens": 1}"#, 400, "the body must be"),
        ("GET", "/api/limits/plain", "", 405, "methods of this path: POST"),
        ("POST", "/api/limits/plain/x", "", 405, "GET, HEAD, PUT, DELETE"),
    ] {
        let (actual, body) = admin.call(method, path, body);
        let error = body["detail"].as_str().unwrap();
        assert!(actual == status && error.contains(expected), "{method} {path}: {actual} {error}");
    }
    let origin = [("Origin", "http://rebound.example")];
    let refused = Connection::open(gateway.admin).request("DELETE", "/api/limits/plain/x", &origin, b"");
    assert_eq!(refused.status, 403, "a page of a browser");
}

#[test]
fn limits_in_redis_are_read_set_granted_and_reset() {
    let mut redis = Redis::start();
    let gateway = Gateway::start(&format!("redis: {{url: '{}', timeout: 5s}}\n{ROUTES}", redis.url()));
    walk(&gateway, "redis");
    redis.kill();
    let (status, body) = Admin(&gateway).call("GET", "/api/limits/plain/x", "");
    let detail = body["detail"].as_str().unwrap_or_default();
    assert!(status == 503 && detail.starts_with("Redis is unreachable"), "{status} {detail}");
}

/// A user's rule beside a tenant's, and a rule per plan.
const RESOLVERS: &str = "
routes:
  - id: two
    uri: 'echo:'
    predicates: [Path=/two]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-user'
          limits:
            - {name: user, algorithm: fixed-window, limit: 4, window: 1h}
            - {name: tenant, key-resolver: 'header:x-tenant', algorithm: fixed-window, limit: 9, window: 1h}
  - id: own
    uri: 'echo:'
    predicates: [Path=/own]
    filters:
      - name: RequestRateLimiter
        args:
          limits:
            - {name: user, key-resolver: 'header:x-user', algorithm: fixed-window, limit: 4, window: 1h}
            - {name: tenant, key-resolver: 'header:x-tenant', algorithm: fixed-window, limit: 9, window: 1h}
  - id: sold
    uri: 'echo:'
    predicates: [Path=/sold]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-user'
          plan-resolver: 'header:x-plan'
          algorithm: quota
          allowance: 1
          plans: {gold: {algorithm: quota, allowance: 100}}
";

#[test]
fn a_rule_of_another_resolver_is_read_and_changed_by_its_name_only() {
    let gateway = Gateway::start(RESOLVERS);
    let admin = Admin(&gateway);
    // `acme` is a user here, and a tenant of the same name exists.
    assert_eq!(gateway.connect().request("GET", "/two", &[("x-user", "eve"), ("x-tenant", "acme")], b"").status, 200);
    assert_eq!(admin.left("GET", "two/acme", ""), [4], "the user's rule alone");
    assert_eq!(admin.left("GET", "two/acme?rule=tenant", ""), [8]);
    assert_eq!(admin.left("GET", "two/acme?rule=two%23tenant", ""), [8], "by its bucket");
    assert_eq!(admin.left("PUT", "two/acme", r#"{"remaining": 2}"#), [2]);
    assert_eq!(admin.left("GET", "two/acme?rule=tenant", ""), [8], "the tenant's budget is as before");
    assert_eq!(admin.left("DELETE", "two/acme", ""), [4]);
    assert_eq!(admin.left("GET", "two/acme?rule=tenant", ""), [8]);
    assert_eq!(admin.left("PUT", "two/acme", r#"{"rule": "tenant", "remaining": 5}"#), [5]);
    assert_eq!(admin.left("DELETE", "two/acme?rule=tenant", ""), [9]);

    for (method, body) in [("GET", ""), ("DELETE", ""), ("PUT", r#"{"grant": 1}"#)] {
        let (status, answer) = admin.call(method, "/api/limits/own/acme", body);
        let error = answer["detail"].as_str().unwrap();
        assert!(status == 400 && error.contains("different resolvers"), "{method}: {status} {error}");
        assert!(error.contains("`own#user`, `own#tenant`"), "{error}");
    }
    assert_eq!(admin.left("GET", "own/acme?rule=tenant", ""), [9]);
    let (_, rules) = admin.call("GET", "/api/limits", "");
    let resolvers: Vec<&str> =
        rules.as_array().unwrap().iter().map(|rule| rule["key-resolver"].as_str().unwrap()).collect();
    assert_eq!(resolvers[..2], ["header:x-user", "header:x-tenant"]);
}

#[test]
fn a_grant_names_the_plan_if_several_have_the_rule() {
    let gateway = Gateway::start(RESOLVERS);
    let admin = Admin(&gateway);
    let (status, answer) = admin.call("PUT", "/api/limits/sold/ada", r#"{"grant": 5}"#);
    let error = answer["detail"].as_str().unwrap();
    assert!(status == 400 && error.contains("`sold`, `sold` of plan `gold`"), "{status} {error}");
    assert_eq!(admin.left("GET", "sold/ada", ""), [1, 100], "nothing is granted");
    assert_eq!(admin.left("PUT", "sold/ada", r#"{"plan": "gold", "grant": 5}"#), [105]);
    assert_eq!(admin.left("PUT", "sold/bob", r#"{"plan": "", "grant": 5}"#), [6]);
}
