//! Fields of JSON lines in the access log: request ids, trace ids, hosts, bytes, and attempts at upstreams.

use std::path::Path;

use serde_json::Value;

use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Waits until the log at `path` has `count` lines, and returns them in the order of their targets.
pub fn lines(path: &Path, count: usize) -> Vec<Value> {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    eventually("the lines are written", || read().lines().count() >= count);
    let mut lines: Vec<Value> = read().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["target"].as_str().unwrap().to_owned());
    lines
}

/// Starts a gateway with `yaml` in front of a JSON log at `path`.
fn logging(path: &Path, yaml: &str) -> Gateway {
    Gateway::start(&format!("access-log: {{output: '{}', format: json}}\n{yaml}", path.display()))
}

#[test]
fn a_line_describes_request_response_and_upstream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let upstream = Upstream::start(|request| response(200, &[], if request.target() == "/b" { b"12345" } else { b"" }));
    let route = format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]", upstream.uri());
    let gateway = logging(&path, &route);
    let mut client = gateway.connect();
    client.request("GET", "/a", &[("Host", "Shop.Example"), ("traceparent", TRACEPARENT)], b"");
    client.request("POST", "/b", &[("traceparent", "00-broken")], b"seven b");
    let lines = lines(&path, 2);
    assert_eq!(lines[0]["host"], "shop.example");
    assert_eq!(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(lines[0]["endpoint"], upstream.uri().trim_start_matches("http://"));
    assert!(lines[0]["connect_ms"].is_number() && lines[0]["response_ms"].is_number(), "{}", lines[0]);
    assert!(lines[1]["connect_ms"].is_null(), "a pooled connection: {}", lines[1]);
    assert!(lines[1]["trace_id"].is_null() && lines[1]["retries"].is_null() && lines[1]["tls"].is_null());
    assert_eq!((&lines[1]["bytes"], &lines[1]["received_bytes"]), (&5.into(), &7.into()));
    let time = lines[0]["time"].as_str().unwrap();
    assert!(time.len() == 27 && time.ends_with('Z') && time < lines[1]["time"].as_str().unwrap(), "{time}");
}

#[test]
fn the_bytes_of_a_request_to_echo_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let gateway = logging(&path, "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]");
    let mut client = gateway.connect();
    let with_length = client.request("POST", "/a", &[], &[b'x'; 100_000]);
    client.send("POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n2\r\n!!\r\n0\r\n\r\n");
    let chunked = client.response().unwrap();
    assert_eq!((&with_length.json()["bodyBytes"], &chunked.json()["bodyBytes"]), (&100_000.into(), &7.into()));
    let lines = lines(&path, 2);
    assert_eq!((&lines[0]["received_bytes"], &lines[1]["received_bytes"]), (&100_000.into(), &7.into()));
    assert_eq!(lines[1]["bytes"], chunked.body.len());
}

#[test]
fn a_line_counts_the_retries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let upstream = Upstream::start(|_| response(503, &[], b""));
    let retry = "{name: Retry, args: {retries: 2, statuses: SERVICE_UNAVAILABLE}}";
    let uri = upstream.uri();
    let gateway =
        logging(&path, &format!("routes: [{{id: a, uri: '{uri}', predicates: [Path=/**], filters: [{retry}]}}]"));
    assert_eq!(gateway.get("/a").status, 503);
    assert_eq!(lines(&path, 1)[0]["retries"], 2);
}

#[test]
fn request_ids_reach_log_upstream_and_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let route = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]";
    let trusted = format!("trusted-proxies: ['127.0.0.1']\nrequest-id: {{header: X-Correlation-Id}}\n{route}");
    let gateway = logging(&path, &trusted);
    let mut client = gateway.connect();
    for (target, sent, is_kept) in [("/1", "from-the-proxy", true), ("/2", "two words", false)] {
        let answer = client.request("GET", target, &[("X-Correlation-Id", sent)], b"");
        let id = answer.header("x-correlation-id").unwrap().to_owned();
        assert_eq!(id == sent, is_kept, "{id}");
        assert_eq!(answer.json()["headers"]["x-correlation-id"], id.as_str());
        let line = lines(&path, target[1..].parse().unwrap()).pop().unwrap();
        assert_eq!((&line["target"], &line["request_id"]), (&target.into(), &id.into()));
    }
    // A client cannot remove the id on its way.
    let drop_id = [("Connection", "X-Correlation-Id"), ("X-Correlation-Id", "kept")];
    assert_eq!(client.request("GET", "/3", &drop_id, b"").json()["headers"]["x-correlation-id"], "kept");
    // Refused requests are answered with an id too.
    assert_eq!(
        client.request("GET", "/%00", &[("X-Correlation-Id", "bad")], b"").header("x-correlation-id"),
        Some("bad")
    );
}

#[test]
fn clients_cannot_choose_request_ids_and_ids_can_be_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let route = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]";
    let gateway = logging(&path, route);
    let answer = gateway.connect().request("GET", "/1", &[("X-Request-Id", "chosen")], b"");
    assert_eq!(answer.header("x-request-id").map(str::len), Some(32));
    let off = logging(&folder.path().join("off.log"), &format!("request-id: {{enabled: false}}\n{route}"));
    let answer = off.connect().request("GET", "/1", &[("X-Request-Id", "chosen")], b"");
    assert_eq!(answer.header("x-request-id"), None);
    assert_eq!(answer.json()["headers"]["x-request-id"], "chosen", "passed on like any other field");
    assert!(lines(&folder.path().join("off.log"), 1)[0]["request_id"].is_null());
}

#[test]
fn a_head_that_the_parser_refuses_has_a_json_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let gateway = logging(&path, "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]");
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nno colon\r\n\r\n");
    assert_eq!(client.response().unwrap().status, 400);
    let line = lines(&path, 1).remove(0);
    assert_eq!((&line["method"], &line["target"], &line["status"]), (&"-".into(), &"-".into(), &400.into()));
    assert_eq!(line["reason"], "unreadable-head");
    assert_eq!(gateway.metric("tollgate_unrouted_requests_total", &["method=\"OTHER\""]), 1.0);
}

#[test]
fn a_line_has_verdict_rule_key_and_remaining_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let limiter = "{name: RequestRateLimiter, args: {key-resolver: 'header:x-key', exempt: [vip], limits: [\
                   {name: minute, limit: 2, algorithm: fixed-window, window: 1m}, \
                   {name: hour, limit: 1, algorithm: fixed-window, window: 1h, mode: observe}]}}";
    let routes = format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{limiter}]}}]");
    let gateway = logging(&path, &routes);
    let mut client = gateway.connect();
    for (target, key) in [("/1", "k\"1"), ("/2", "k\"1"), ("/3", "k\"1"), ("/4", "vip")] {
        client.request("GET", target, &[("x-key", key)], b"");
    }
    let lines = lines(&path, 4);
    let logged = |field: &str| lines.iter().map(|line| line[field].to_string()).collect::<Vec<_>>();
    assert_eq!(logged("verdict"), ["\"allowed\"", "\"allowed\"", "\"denied\"", "\"exempt\""]);
    assert_eq!(logged("remaining"), ["1", "0", "0", "null"]);
    assert_eq!(logged("observed"), ["null", "[\"hour\"]", "null", "null"]);
    for line in &lines[..3] {
        assert_eq!((&line["rule"], &line["key"]), (&"minute".into(), &"k\"1".into()), "{line}");
    }
    let decided: Vec<_> = lines[..3].iter().map(|line| line["decided_us"][0].as_u64().unwrap()).collect();
    assert!(decided.is_sorted() && decided[0] > 1_700_000_000_000_000, "{decided:?}");
}

#[test]
fn a_line_has_the_plan_and_its_rule_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    // Rules of all plans count in one bucket, and are equal.
    let rule = "limit: 9, algorithm: fixed-window, window: 1h";
    let daily = "{name: daily, limit: 99, algorithm: fixed-window, window: 1d}";
    let plans = format!("gold: {{limits: [{daily}, {{{rule}}}]}}, free: {{limits: [{{{rule}}}, {daily}]}}");
    let limiter = format!(
        "{{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', plan-resolver: 'header:x-plan', {rule}, \
         plans: {{{plans}}}}}}}"
    );
    let routes = format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{limiter}]}}]");
    let gateway = logging(&path, &routes);
    let mut client = gateway.connect();
    for (target, plan) in [("/1", "gold"), ("/2", "free"), ("/3", "none")] {
        client.request("GET", target, &[("x-key", "k"), ("x-plan", plan)], b"");
    }
    let lines = lines(&path, 3);
    let logged = |field: &str| lines.iter().map(|line| line[field].to_string()).collect::<Vec<_>>();
    assert_eq!(logged("rule"), ["\"rule2\"", "\"rule1\"", "\"a\""]);
    assert_eq!(logged("plan"), ["\"gold\"", "\"free\"", "null"]);
}

#[test]
fn a_line_has_hashes_in_place_of_keys_if_so_configured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let limiter = "{name: RequestRateLimiter, args: {key-resolver: 'header:x-key', \
                   redis-rate-limiter.replenishRate: 1, redis-rate-limiter.burstCapacity: 9}}";
    let routes = format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{limiter}]}}]");
    let gateway = logging(&path, &format!("management: {{hash-keys: true}}\n{routes}"));
    let mut client = gateway.connect();
    for (target, key) in [("/1", "alice"), ("/2", "alice"), ("/3", "bob")] {
        client.request("GET", target, &[("x-key", key)], b"");
    }
    let lines = lines(&path, 3);
    let keys: Vec<_> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert!(keys[0].len() == 16 && keys[0].bytes().all(|byte| byte.is_ascii_hexdigit()), "{keys:?}");
    assert!(keys[0] == keys[1] && keys[1] != keys[2], "{keys:?}");
}

#[test]
fn a_line_has_the_id_of_a_trace_that_the_gateway_started() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let (collector, upstream) = (Upstream::ok("{}"), Upstream::ok("x"));
    let traced = |probability: f64| {
        format!(
            "management: {{tracing: {{sampling: {{probability: {probability}}}}}, otlp: {{tracing: {{endpoint: \
             '{}/v1/traces'}}}}}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
            collector.uri(),
            upstream.uri()
        )
    };
    let cases = [(1.0, &[][..]), (0.0, &[][..]), (0.0, &[("traceparent", TRACEPARENT)][..])];
    for (index, (probability, fields)) in cases.into_iter().enumerate() {
        let gateway = logging(&path, &traced(probability));
        assert_eq!(gateway.connect().request("GET", "/a", fields, b"").status, 200);
        lines(&path, index + 1);
    }
    let lines = lines(&path, 3);
    let requests = upstream.requests();
    let forwarded: Vec<_> =
        requests.iter().map(|request| request.header("traceparent").map(|value| &value[3..35])).collect();
    let logged: Vec<_> = lines.iter().map(|line| line["trace_id"].as_str()).collect();
    assert_eq!(logged, forwarded);
    assert_eq!(logged.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
}
