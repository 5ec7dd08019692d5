//! `/api/limits` while Redis is lost: what was changed is told, in the response and in the log.

use serde_json::{Value, json};
use tollgate_test_support::{Fault, FaultProxy};

use crate::limits_api::ROUTES;
use crate::support::client::{Connection, Response};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

fn call(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Connection::open(gateway.admin).request(method, &format!("/api/limits/{path}"), &[], body.as_bytes())
}

/// Sends a change that fails, and returns the problem.
fn failed(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Value {
    let response = call(gateway, method, path, body);
    assert_eq!((response.status, response.header("content-type")), (503, Some("application/problem+json")));
    response.json()
}

fn detail(gateway: &Gateway, method: &str, path: &str, body: &Value) -> String {
    failed(gateway, method, path, body)["detail"].as_str().unwrap().to_owned()
}

/// Returns a problem without the latest error of the connection, which it must have.
fn without_reason(detail: &str) -> String {
    let (problem, reason) = detail.split_once("; latest error of the connection: ").unwrap_or((detail, ""));
    assert!(!reason.is_empty(), "{detail}");
    problem.to_owned()
}

fn remaining(gateway: &Gateway, path: &str) -> Vec<u64> {
    let response = call(gateway, "GET", path, &Value::Null).json();
    response["limits"].as_array().unwrap().iter().map(|limit| limit["remaining"].as_u64().unwrap()).collect()
}

#[test]
fn without_a_connection_nothing_is_changed_and_the_problem_says_so() {
    let mut redis = Redis::start();
    let gateway = Gateway::start(&format!("redis: {{url: '{}', timeout: 5s}}\n{ROUTES}", redis.url()));
    redis.kill();
    eventually("the connection is lost", || {
        let details = gateway.admin("/actuator/health").json()["components"]["redis"]["details"].clone();
        details["connected"] == 0 && details["error"].is_string()
    });
    for route in ["sold", "plain"] {
        let path = format!("{route}/ann");
        let told = |method, body| without_reason(&detail(&gateway, method, &path, &body));
        assert_eq!(told("PUT", json!({"grant": 5})), "Redis is unreachable; nothing was granted");
        assert_eq!(told("PUT", json!({"remaining": 5})), "Redis is unreachable; nothing was set");
        assert_eq!(told("DELETE", Value::Null), "Redis is unreachable; nothing was reset");
        assert_eq!(told("GET", Value::Null), "Redis is unreachable");
    }
    let listed = detail(&gateway, "DELETE", "listed/ann", &Value::Null);
    assert_eq!(without_reason(&listed), "Redis is unreachable; nothing was reset");
    gateway.logged(
        "caller=local client=127.0.0.1 method=\"PUT\" path=\"/api/limits/{route}/{key}\" status=503 change=\"grant of 5 \
         tokens to key ann under rule `sold` of route sold failed: Redis is unreachable; nothing was granted\"",
    );
    let batch = failed(&gateway, "POST", "sold", &json!({"keys": [{"key": "x"}, {"key": "y", "grant": 1}]}));
    assert_eq!(batch["detail"], "2 of 2 keys failed, each with its `error` in `keys`");
    let errors = ["Redis is unreachable", "Redis is unreachable; nothing was granted"];
    assert_eq!([0, 1].map(|index| batch["keys"][index]["error"].as_str().unwrap()), errors);
    gateway.logged("change=\"grant of 1 token to key y under rule `sold` of route sold failed: Redis is unreachable;");
    assert!(!gateway.log().contains("key x"), "a read is not a change: {}", gateway.log());
}

#[test]
fn a_change_lost_in_flight_may_have_been_made() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address);
    let gateway = Gateway::start(&format!("redis: {{url: '{}', timeout: 300ms}}\n{ROUTES}", proxy.url()));
    eventually("redis decides", || call(&gateway, "GET", "sold/ann", &Value::Null).status == 200);
    proxy.once(Fault::HoldReplies);
    assert_eq!(
        detail(&gateway, "PUT", "sold/ann", &json!({"grant": 5})),
        "Redis did not reply in time; the key may have been granted the tokens: read it before you repeat the call"
    );
    proxy.set(Fault::Pass);
    eventually("redis decides", || call(&gateway, "GET", "sold/ann", &Value::Null).status == 200);
    assert_eq!(remaining(&gateway, "sold/ann"), [7], "it was made");

    proxy.once(Fault::HoldReplies);
    let lost = failed(&gateway, "POST", "sold", &json!({"keys": [{"key": "bob", "grant": 1}]}));
    let error = lost["keys"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("Redis did not reply in time; the key may have been granted"), "{error}");
    proxy.set(Fault::Pass);

    // Other rules are read first: that call was lost, not the change.
    eventually("redis decides", || call(&gateway, "GET", "plain/ann", &Value::Null).status == 200);
    proxy.once(Fault::HoldReplies);
    let plain = detail(&gateway, "PUT", "plain/ann", &json!({"grant": 1}));
    assert_eq!(plain, "Redis is unreachable; nothing was granted");
    proxy.set(Fault::Pass);
}

#[test]
fn a_reset_that_is_cut_short_names_the_rules_that_were_reset() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address);
    let limiter = |bucket: &str| {
        format!(
            "{{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', bucket: {bucket}, replenish-rate: 1, \
             period: 1h, burst-capacity: 5}}}}"
        )
    };
    let limiters = ["first", "second", "third"].map(limiter).join(", ");
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}', timeout: 300ms}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: \
         [{limiters}]}}]",
        proxy.url()
    ));
    eventually("redis decides", || call(&gateway, "GET", "a/ann", &Value::Null).status == 200);
    proxy.set(Fault::HoldCommands(b"second"));
    let expected = "Redis did not reply in time; reset: `#first`; possibly reset: `#second`; not reset: `#third`";
    assert_eq!(detail(&gateway, "DELETE", "a/ann", &Value::Null), expected);
    gateway.logged(&format!(
        "change=\"reset of key ann under rule `#first`, `#second`, `#third` of route a failed: {expected}\""
    ));
    proxy.set(Fault::Pass);
}

#[test]
fn a_change_has_one_log_line_with_caller_amount_key_and_rule() {
    let gateway = Gateway::start(ROUTES);
    for (method, path, body, change) in [
        ("PUT", "plain/ann", json!({"grant": 1}), "grant of 1 token to key ann under rule `plain` of route plain"),
        (
            "PUT",
            "listed/ann",
            json!({"rule": "hourly", "remaining": 3}),
            "remaining tokens set to 3 for key ann under rule `hourly` of route listed",
        ),
        ("DELETE", "sold/ann", Value::Null, "reset of key ann under rule `sold` of route sold"),
        (
            "POST",
            "sold",
            json!({"keys": [{"key": "read"}, {"key": "bob", "grant": 7}]}),
            "grant of 7 tokens to key bob under rule `sold` of route sold",
        ),
    ] {
        assert_eq!(call(&gateway, method, path, &body).status, 200);
        let line = gateway.logged(&format!("change=\"{change}\""));
        assert!(line.contains("caller=local client=127.0.0.1") && line.contains("status=200"), "{line}");
    }
    let lines = gateway.log().lines().filter(|line| line.contains("on the admin port caller")).count();
    assert_eq!(lines, 4, "{}", gateway.log());
}
