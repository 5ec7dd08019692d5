//! Limits, as a client sees them.

use std::time::{Duration, Instant};

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

/// One route, `/a`, with one limiter by `X-Key`.
fn limited(uri: &str, arguments: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{id: a, uri: '{uri}', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, \
         args: {{key-resolver: 'header:x-key', {arguments}}}}}]}}]"
    ))
}

fn ask(client: &mut Connection, key: &str) -> crate::support::client::Response {
    client.request("GET", "/a", &[("x-key", key)], b"")
}

#[test]
fn a_burst_is_admitted_then_denied_with_retry_after() {
    let upstream = Upstream::ok("hello");
    let gateway = limited(&upstream.uri(), "replenish-rate: 1, burst-capacity: 3");
    let mut client = gateway.connect();
    for remaining in ["2", "1", "0"] {
        let response = ask(&mut client, "k");
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert_eq!(response.header("x-ratelimit-remaining"), Some(remaining));
    }
    let denied = ask(&mut client, "k");
    assert_eq!(denied.status, 429);
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(denied.header("x-ratelimit-replenish-rate"), Some("1"));
    assert_eq!(denied.header("x-ratelimit-burst-capacity"), Some("3"));
    assert_eq!(denied.header("x-ratelimit-requested-tokens"), Some("1"));
    assert_eq!(denied.header("x-ratelimit-degraded"), None);
    assert_eq!(denied.header("retry-after"), Some("1"));
    assert_eq!(denied.header("cache-control"), Some("no-store"));
    assert_eq!(ask(&mut client, "other").status, 200);
    assert_eq!(upstream.requests().len(), 4, "the upstream never saw the denied request");
}

#[test]
fn a_client_is_admitted_after_retry_after() {
    let gateway = limited("echo:", "replenish-rate: 1, burst-capacity: 1");
    let mut client = gateway.connect();
    assert_eq!(ask(&mut client, "k").status, 200);
    let emptied = Instant::now();
    let denied = ask(&mut client, "k");
    let wait: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    eventually("the bucket holds a token", || ask(&mut client, "k").status == 200);
    let waited = emptied.elapsed();
    assert!(waited > Duration::from_millis(950), "a token takes a second, not {waited:?}");
    assert!(wait == 1, "{wait}");
}

#[test]
fn a_denial_is_problem_json_or_one_line_of_text_as_accepted() {
    let gateway = limited("echo:", "replenish-rate: 1, burst-capacity: 0");
    let mut client = gateway.connect();
    let denied = client.request("GET", "/a", &[("x-key", "k"), ("accept", "application/json")], b"");
    assert_eq!((denied.status, denied.header("content-type")), (429, Some("application/problem+json")));
    let problem = denied.json();
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["violated-policies"][0], "a");
    let denied = client.request("GET", "/a", &[("x-key", "k"), ("accept", "text/html, */*")], b"");
    assert_eq!(denied.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(denied.text(), "Too Many Requests\n");
}

#[test]
fn a_denied_head_request_has_the_length_of_a_get_and_no_body() {
    let gateway = limited("echo:", "replenish-rate: 1, burst-capacity: 0");
    let mut client = gateway.connect();
    let length = ask(&mut client, "k").header("content-length").unwrap().to_owned();
    let head = client.request("HEAD", "/a", &[("x-key", "k")], b"");
    assert_eq!((head.status, head.header("content-length")), (429, Some(length.as_str())));
    assert_eq!(ask(&mut client, "k").status, 429, "the connection is still in step");
}

#[test]
fn a_request_without_a_key_is_forbidden_without_limit_headers() {
    let upstream = Upstream::ok("hello");
    let gateway = limited(&upstream.uri(), "replenish-rate: 1, burst-capacity: 1");
    for headers in [&[][..], &[("x-key", "")]] {
        let refused = gateway.connect().request("GET", "/a", headers, b"");
        assert_eq!(refused.status, 403);
        assert!(!refused.headers.iter().any(|(name, _)| name.to_lowercase().starts_with("x-ratelimit")));
        assert_eq!(refused.header("retry-after"), None);
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn the_empty_key_rules_can_be_changed() {
    let gateway = limited("echo:", "replenish-rate: 1, burst-capacity: 1, empty-key-status: UNAUTHORIZED");
    assert_eq!(gateway.get("/a").status, 401);
    let gateway = limited("echo:", "replenish-rate: 1, burst-capacity: 1, deny-empty-key: false");
    let mut client = gateway.connect();
    for _ in 0..5 {
        let unlimited = client.request("GET", "/a", &[], b"");
        assert_eq!((unlimited.status, unlimited.header("x-ratelimit-remaining")), (200, None));
    }
}

#[test]
fn status_body_and_headers_of_a_denial_can_be_changed() {
    let gateway = limited(
        "echo:",
        "replenish-rate: 1, burst-capacity: 0, requested-tokens: 1, status-code: SERVICE_UNAVAILABLE, \
         error-body: empty, remaining-header: X-Left",
    );
    let denied = ask(&mut gateway.connect(), "k");
    assert_eq!((denied.status, denied.text().as_str(), denied.header("content-length")), (503, "", Some("0")));
    assert_eq!((denied.header("x-left"), denied.header("x-ratelimit-remaining")), (Some("0"), None));

    let gateway = limited("echo:", "replenish-rate: 1, burst-capacity: 1, include-headers: false");
    let mut client = gateway.connect();
    let (allowed, denied) = (ask(&mut client, "k"), ask(&mut client, "k"));
    assert_eq!((allowed.status, denied.status), (200, 429));
    for answer in [&allowed, &denied] {
        assert!(!answer.headers.iter().any(|(name, _)| name.to_lowercase().starts_with("x-ratelimit")));
    }
    assert_eq!(denied.header("retry-after"), Some("1"));
}

#[test]
fn a_request_may_cost_several_tokens_but_never_more_than_the_burst() {
    let gateway = limited("echo:", "replenish-rate: 1, burst-capacity: 120, requested-tokens: 50");
    let mut client = gateway.connect();
    let answers: Vec<_> = (0..3).map(|_| ask(&mut client, "k")).collect();
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 429]);
    assert_eq!(answers[0].header("x-ratelimit-remaining"), Some("70"));
    let left: u32 = answers[2].header("x-ratelimit-remaining").unwrap().parse().unwrap();
    let wait: u32 = answers[2].header("retry-after").unwrap().parse().unwrap();
    assert!((20..25).contains(&left) && (25..=30).contains(&wait), "{left} left, {wait} s");

    let gateway = limited("echo:", "replenish-rate: 1, burst-capacity: 2, requested-tokens: 3");
    let denied = ask(&mut gateway.connect(), "k");
    assert_eq!((denied.status, denied.header("retry-after")), (429, None), "waiting does not help");
}

#[test]
fn two_limiters_of_a_route_have_separate_buckets() {
    let gateway = Gateway::start(
        "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [\
         {name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 5, key-resolver: 'header:x-tenant'}}, \
         {name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 2, key-resolver: 'header:x-key'}}]}]",
    );
    let mut client = gateway.connect();
    let mut ask = |key: &str| client.request("GET", "/a", &[("x-tenant", "k"), ("x-key", key)], b"");
    let first = ask("k");
    assert_eq!(first.all("x-ratelimit-remaining"), ["4", "1"], "the outer limiter's first");
    assert_eq!(first.all("x-ratelimit-burst-capacity"), ["5", "2"]);
    assert_eq!(ask("k").status, 200);
    let denied_by_inner = ask("k");
    assert_eq!((denied_by_inner.status, denied_by_inner.all("x-ratelimit-remaining")), (429, vec!["2", "0"]));
    assert_eq!((ask("x").status, ask("y").status), (200, 200));
    let denied_by_outer = ask("z");
    assert_eq!((denied_by_outer.status, denied_by_outer.all("x-ratelimit-burst-capacity")), (429, vec!["5"]));
}

#[test]
fn a_default_limiter_counts_each_route_separately_from_its_own_limiters() {
    let limiter = |burst: u32| {
        format!(
            "{{name: RequestRateLimiter, args: {{replenish-rate: 1, burst-capacity: {burst}, key-resolver: 'header:x-key'}}}}"
        )
    };
    let gateway = Gateway::start(&format!(
        "default-filters: [{}]\nroutes:\n  - {{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{}]}}\n  \
         - {{id: b, uri: 'echo:', predicates: [Path=/b]}}\n",
        limiter(4),
        limiter(2)
    ));
    let mut client = gateway.connect();
    let mut statuses = |path: &str| -> Vec<u16> {
        (0..5).map(|_| client.request("GET", path, &[("x-key", "k")], b"").status).collect()
    };
    assert_eq!(statuses("/a"), [200, 200, 429, 429, 429]);
    assert_eq!(statuses("/b"), [200, 200, 200, 200, 429]);
}

#[test]
fn limits_of_an_application_yml_respond_as_spring_does() {
    let gateway = Gateway::start(
        "spring:\n  cloud:\n    gateway:\n      routes:\n        - id: a\n          uri: 'echo:'\n          \
         predicates: [Path=/a]\n          filters:\n            - name: RequestRateLimiter\n              args:\n                \
         redis-rate-limiter.replenishRate: 1\n                redis-rate-limiter.burstCapacity: 2\n                \
         redis-rate-limiter.requestedTokens: 1\n                key-resolver: \"#{@userKeyResolver}\"\n\
         key-resolvers: {userKeyResolver: 'query:user'}\nserver: {address: 127.0.0.1}\n",
    );
    let mut client = gateway.connect();
    let statuses: Vec<u16> = (0..3).map(|_| client.request("GET", "/a?user=ada", &[], b"").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    let denied = client.request("GET", "/a?user=ada", &[("accept", "application/json")], b"");
    assert_eq!((denied.text().as_str(), denied.header("content-length")), ("", Some("0")));
    assert_eq!((denied.header("retry-after"), denied.header("x-ratelimit-remaining")), (Some("1"), Some("0")));
}

#[test]
fn a_429_of_the_upstream_keeps_its_headers_after_ours() {
    let upstream =
        Upstream::start(|_| response(429, &[("X-RateLimit-Remaining", "77"), ("Retry-After", "9")], b"theirs"));
    let gateway = limited(&upstream.uri(), "replenish-rate: 1, burst-capacity: 5");
    let theirs = ask(&mut gateway.connect(), "k");
    assert_eq!((theirs.status, theirs.text().as_str()), (429, "theirs"));
    assert_eq!(theirs.all("x-ratelimit-remaining"), ["4", "77"]);
    assert_eq!(theirs.all("retry-after"), ["9"]);
}

#[test]
fn headers_of_the_upstream_and_of_several_limiters_are_kept_in_order() {
    let theirs = [("X-RateLimit-Remaining", "7"), ("X-RateLimit-Remaining", "8"), ("X-RateLimit-Remaining", "9")];
    let upstream = Upstream::start(move |_| response(200, &theirs, b"ok"));
    let limiter = |burst: u32| {
        format!(
            "{{name: RequestRateLimiter, args: {{key-resolver: route, replenish-rate: 1, burst-capacity: {burst}}}}}"
        )
    };
    let filters = [10, 20, 30, 40].map(limiter).join(", ");
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/a], filters: [{filters}]}}]",
        upstream.uri()
    ));
    let answer = gateway.get("/a");
    assert_eq!((answer.status, answer.all("x-ratelimit-remaining")), (200, vec!["9", "19", "29", "39", "7", "8", "9"]));
}

#[test]
fn rotating_keys_use_bounded_memory_and_refill_no_empty_bucket() {
    const KEYS: usize = 30_000;
    const BATCH: usize = 500;
    let gateway = Gateway::start(
        "memory: {max-keys: 2000}\nroutes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [\
         {name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 600, requested-tokens: 600, \
         key-resolver: 'query:k', error-body: empty, include-headers: false}}]}]",
    );
    let mut client = gateway.connect();
    let mut victim = gateway.connect();
    assert_eq!(victim.request("GET", "/a?k=victim", &[], b"").status, 200);
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    let before = resident();
    for batch in 0..KEYS / BATCH {
        let requests: String = (0..BATCH)
            .map(|n| format!("HEAD /a?k={} HTTP/1.1\r\nHost: localhost\r\n\r\n", batch * BATCH + n))
            .collect();
        client.send(requests);
        for _ in 0..BATCH {
            assert!(client.read_response_to("HEAD").is_some());
        }
    }
    let grown = resident().saturating_sub(before);
    println!("resident set: {before} kB, {grown} kB more after {KEYS} keys");
    assert!(grown < 8 * 1024, "{grown} kB");
    assert!(gateway.metric("tollgate_memory_keys", &[]) <= 2_000.0);
    assert!(gateway.metric("tollgate_memory_overflowed_total", &[]) > 20_000.0);
    assert_eq!(victim.request("GET", "/a?k=victim", &[], b"").status, 429);
}
