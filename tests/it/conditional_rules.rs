//! Rules with `when`: they neither count nor deny other requests, which need no key for them.

mod dry_runs;

use serde_json::{Value, json};

use crate::support::client::{Connection, Response};
use crate::support::gateway::{Gateway, run};
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, response};

/// Returns a route with a rule for all requests and one for writes by user. `more` are further arguments.
fn orders(more: &str) -> String {
    format!(
        "
routes:
  - id: orders
    uri: 'echo:'
    predicates: [Path=/orders/**]
    filters:
      - SetPath=/elsewhere
      - RemoveRequestHeader=X-Bulk
      - name: RequestRateLimiter
        args:
          key-resolver: ip
          limits:
            - {{name: all, algorithm: fixed-window, limit: 100, window: 1h}}
            - name: writes
              algorithm: fixed-window
              limit: 2
              window: 1h
              key-resolver: 'header:x-user'
              when: ['Path=/orders/{{id}}', {{any: [Method=POST, 'Header=X-Bulk, yes']}}]
          {more}
"
    )
}

fn send(gateway: &Gateway, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    gateway.connect().request(method, target, fields, b"")
}

fn status(gateway: &Gateway, method: &str, target: &str, fields: &[(&str, &str)]) -> u16 {
    send(gateway, method, target, fields).status
}

fn admin(gateway: &Gateway, method: &str, path: &str, body: &str) -> Value {
    let response = Connection::open(gateway.admin).request(method, path, &[], body.as_bytes());
    assert_eq!(response.status, 200, "{method} {path}: {}", response.text());
    response.json()
}

fn rules(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|one| one["rule"].as_str().unwrap()).collect()
}

const ADA: (&str, &str) = ("x-user", "ada");

#[test]
fn a_rule_counts_the_requests_that_match_as_they_were_routed() {
    let gateway = Gateway::start(&orders("headers: draft"));
    for _ in 0..3 {
        let read = send(&gateway, "GET", "/orders/1", &[]);
        assert_eq!((read.status, read.header("ratelimit-policy")), (200, Some("\"all\";q=100;w=3600")));
    }
    // Filters before the limiter change the path, and remove the field.
    let write = send(&gateway, "POST", "/orders/1", &[ADA]);
    assert_eq!(write.status, 200);
    let policy = write.header("ratelimit-policy").unwrap();
    assert!(policy.contains("\"all\"") && policy.contains("\"writes\";q=2"), "{policy}");
    assert_eq!(status(&gateway, "GET", "/orders/1", &[ADA, ("x-bulk", "yes")]), 200);
    let denied = send(&gateway, "POST", "/orders/2", &[ADA, ("accept", "application/json")]);
    assert_eq!((denied.status, &denied.json()["violated-policies"]), (429, &json!(["writes"])));
    assert_eq!(status(&gateway, "POST", "/orders/2", &[]), 403, "the rule applies, and needs a key");
    assert_eq!(status(&gateway, "POST", "/orders/2/items", &[]), 200, "it does not apply to this path");
    assert_eq!(status(&gateway, "PUT", "/orders/2", &[ADA]), 200);

    let top = admin(&gateway, "GET", "/api/top?verdict=allowed", "");
    let totals: Vec<_> = top["rules"].as_array().unwrap().iter().map(|rule| (&rule["rule"], &rule["total"])).collect();
    assert_eq!(totals, [(&json!("all"), &json!(7)), (&json!("writes"), &json!(2))]);
}

#[test]
fn a_decision_is_one_call_of_redis_under_the_rules_that_apply() {
    let redis = Redis::start();
    let gateway = Gateway::start(&format!("redis: {{url: '{}', timeout: 5s}}\n{}", redis.url(), orders("")));
    for _ in 0..5 {
        assert_eq!(status(&gateway, "GET", "/orders/1", &[]), 200);
    }
    for _ in 0..2 {
        assert_eq!(status(&gateway, "POST", "/orders/1", &[ADA]), 200);
    }
    let stats = redis.cli(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_evalsha:calls=7,"), "{stats}");
    let keys: Vec<String> = redis.query(&["KEYS", "*ada*"]).unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert_eq!(status(&gateway, "POST", "/orders/1", &[ADA]), 429);
    assert_eq!(status(&gateway, "GET", "/orders/1", &[ADA]), 200);
}

#[test]
fn an_only_rule_plans_default_filters_and_observed_rules_have_conditions() {
    let window = "algorithm: fixed-window, window: 1h";
    let gateway = Gateway::start(&format!(
        "
default-filters: [{{name: RequestRateLimiter, args: {{key-resolver: 'header:x-user', {window}, limit: 1, when: [Path=/one/**]}}}}]
routes:
  - {{id: one, uri: 'echo:', predicates: [Path=/one/**]}}
  - id: plans
    uri: 'echo:'
    predicates: [Path=/plans]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-user'
          plan-resolver: 'header:x-plan'
          default-plan: free
          plans:
            free: {{{window}, limit: 1, when: Method=POST}}
            gold: {{limits: [{{{window}, limit: 2, when: [{{not: Method=GET}}]}}, {{{window}, limit: 3}}]}}
  - id: observed
    uri: 'echo:'
    predicates: [Path=/observed]
    filters:
      - {{name: RequestRateLimiter, args: {{key-resolver: ip, {window}, limit: 1, mode: observe, would-deny-header: true, when: [Method=POST]}}}}
"
    ));
    let statuses = |method, target, fields: &[(&str, &str)], count: usize| -> Vec<u16> {
        (0..count).map(|_| status(&gateway, method, target, fields)).collect()
    };
    assert_eq!(statuses("GET", "/one", &[ADA], 2), [200, 429]);
    assert_eq!(statuses("GET", "/one", &[], 1), [403]);
    assert_eq!(statuses("GET", "/observed", &[], 2), [200, 200], "the default filter does not apply");
    assert_eq!(statuses("GET", "/plans", &[ADA], 2), [200, 200]);
    assert_eq!(statuses("POST", "/plans", &[ADA], 2), [200, 429]);
    let gold = [("x-user", "bob"), ("x-plan", "gold")];
    assert_eq!(statuses("POST", "/plans", &gold, 3), [200, 200, 429]);
    assert_eq!(statuses("GET", "/plans", &gold, 2), [200, 429]);
    let would_deny = |method| send(&gateway, method, "/observed", &[]).header("x-ratelimit-would-deny").is_some();
    assert_eq!([would_deny("POST"), would_deny("POST"), would_deny("GET")], [false, true, false]);
}

#[test]
fn conditions_are_those_of_the_route_that_takes_a_request_after_a_forward() {
    let limiter = |when: &str| {
        format!(
            "{{name: RequestRateLimiter, args: {{key-resolver: ip, algorithm: fixed-window, limit: 1, window: 1h, when: [{when}]}}}}"
        )
    };
    let gateway = Gateway::start(&format!(
        "routes:
  - {{id: other, uri: 'echo:', predicates: [Path=/other], filters: [{}, {}]}}
  - {{id: first, uri: 'forward:/target', predicates: [Path=/first]}}
  - {{id: target, uri: 'echo:', predicates: [Path=/target], filters: [{}, {}]}}
",
        limiter("Method=PUT"),
        limiter("Method=DELETE"),
        limiter("Method=PATCH"),
        limiter("Method=POST")
    ));
    let statuses = |method| [(); 2].map(|()| status(&gateway, method, "/first", &[]));
    assert_eq!((statuses("PUT"), statuses("GET")), ([200, 200], [200, 200]));
    assert_eq!((statuses("POST"), statuses("PATCH")), ([200, 429], [200, 429]));
}

#[test]
fn a_condition_that_cannot_be_decided_refuses_the_request_as_a_route_does() {
    let slow = "(?=(a+)+$)(a|aa)+b";
    let gateway = Gateway::start(&orders("").replace("'Header=X-Bulk, yes'", &format!("'Header=X-Bulk, {slow}'")));
    let long = "a".repeat(60);
    assert_eq!(status(&gateway, "GET", "/orders/1", &[("x-bulk", &long)]), 400);
    assert_eq!(status(&gateway, "POST", "/orders/1", &[ADA, ("x-bulk", &long)]), 200, "`any` has a match");
}

#[test]
fn a_cached_response_needs_the_keys_of_the_rules_that_apply() {
    let upstream = Upstream::start(|_| response(200, &[], b"fresh"));
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [LocalResponseCache=5m, {{name: RequestRateLimiter, args: \
         {{algorithm: fixed-window, limit: 9, window: 1h, key-resolver: 'header:x-user', when: ['Query=full']}}}}]}}]",
        upstream.uri()
    ));
    assert_eq!([(); 2].map(|()| status(&gateway, "GET", "/a", &[])), [200, 200]);
    assert_eq!(upstream.requests().len(), 1, "the second response is from the cache");
    assert_eq!(status(&gateway, "GET", "/a?full", &[ADA]), 200);
    assert_eq!(status(&gateway, "GET", "/a?full", &[]), 403);
}

#[test]
fn a_reload_changes_conditions_and_keeps_counts() {
    let gateway = Gateway::start(&orders(""));
    assert_eq!([(); 2].map(|()| status(&gateway, "POST", "/orders/1", &[ADA])), [200, 200]);
    gateway.reload(&orders("").replace("Method=POST", "Method=PUT"));
    assert_eq!(status(&gateway, "POST", "/orders/1", &[ADA]), 200);
    assert_eq!(status(&gateway, "PUT", "/orders/1", &[ADA]), 429);
}

#[test]
fn the_admin_port_shows_conditions_and_changes_the_rules_by_name() {
    let gateway = Gateway::start(&orders("").replace("X-Bulk, yes", "X-Bulk, s3cret"));
    let listed = admin(&gateway, "GET", "/api/limits", "");
    let when = "Path=/orders/{id}, any: [Method=POST; Header=X-Bulk, ****]";
    assert_eq!((&listed[0]["when"], &listed[1]["when"]), (&Value::Null, &json!(when)));
    for path in
        ["/actuator/gateway/routes", "/actuator/gateway/routedefinitions", "/api/config", "/api/limits/orders/ada"]
    {
        let text = gateway.admin(path).text();
        assert!(!text.contains("s3cret"), "{path}: {text}");
    }
    assert_eq!([(); 3].map(|()| status(&gateway, "POST", "/orders/1", &[ADA])), [200, 200, 429]);
    let reset = admin(&gateway, "DELETE", "/api/limits/orders/ada?rule=writes", "");
    assert_eq!(rules(&reset["limits"]), ["writes"]);
    assert_eq!(status(&gateway, "POST", "/orders/1", &[ADA]), 200);
    let numbers = r#"{"rule": "writes", "block": true, "expires-in": "1h"}"#;
    admin(&gateway, "PUT", "/api/overrides/orders/ada", numbers);
    assert_eq!(status(&gateway, "POST", "/orders/1", &[ADA]), 429);
    assert_eq!(status(&gateway, "GET", "/orders/1", &[ADA]), 200, "the override changes no condition");
    let address = gateway.admin.to_string();
    let (code, table, _) = run(&["limits", "get", "orders", "ada", "--rule", "writes", &address]);
    assert!(code == Some(0) && table.contains("WHEN") && table.contains(when), "{table}");
}
