//! Rules beyond one bucket: lists, modes, access lists, costs, plans, shared buckets, overflow.

mod costs;
mod enforcement;
mod plans;

use crate::support::client::{Connection, Response};
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::Upstream;

/// `/a` with one limiter of these arguments.
fn yaml(arguments: &str) -> String {
    format!(
        "routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: {{{arguments}}}}}]}}]\n"
    )
}

/// The same with buckets in `redis`, and a timeout long enough for two busy cores.
fn in_redis(redis: &Redis, arguments: &str) -> String {
    format!("redis: {{url: '{}', timeout: 5s}}\n{}", redis.url(), yaml(arguments))
}

/// The same with a Redis call for each request.
fn always_in_redis(redis: &Redis, arguments: &str) -> String {
    in_redis(redis, arguments).replacen("timeout: 5s", "timeout: 5s, denial-cache: false", 1)
}

fn ask(client: &mut Connection, key: &str) -> Response {
    client.request("GET", "/a", &[("x-key", key)], b"")
}

const TWO_RULES: &str = "key-resolver: 'header:x-key', headers: [spring, draft], limits: [\
    {name: second, replenish-rate: 1, period: 1h, burst-capacity: 5}, \
    {name: daily, algorithm: fixed-window, limit: 3, window: 1h}, \
    {name: tenant, algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 4, key-resolver: 'header:x-tenant'}]";

#[test]
fn several_rules_admit_all_or_nothing_in_memory_and_in_redis_in_one_call() {
    let redis = Redis::start();
    for yaml in [yaml(TWO_RULES), in_redis(&redis, TWO_RULES)] {
        let gateway = Gateway::start(&yaml);
        let mut client = gateway.connect();
        let mut ask = |key: &str| {
            let headers = [("x-key", key), ("x-tenant", "t"), ("accept", "application/json")];
            client.request("GET", "/a", &headers, b"")
        };
        let first = ask("k");
        assert_eq!(first.status, 200);
        let policy = "\"second\";q=5;w=18000, \"daily\";q=3;w=3600, \"tenant\";q=4;w=14400";
        assert_eq!(first.header("ratelimit-policy"), Some(policy));
        assert_eq!(first.header("x-ratelimit-remaining"), Some("2"), "the daily rule stands nearest");
        assert_eq!([ask("k").status, ask("k").status], [200, 200]);
        let denied = ask("k");
        assert_eq!((denied.status, denied.header("x-ratelimit-burst-capacity")), (429, Some("3")));
        assert_eq!(denied.json()["violated-policies"], serde_json::json!(["daily"]));
        let limit = denied.header("ratelimit").unwrap();
        assert!(limit.starts_with("\"second\";r=2;t=7200, \"daily\";r=0;t="), "nothing was taken: {limit}");
        assert!(limit.contains("\"tenant\";r=1;"), "{limit}");
        assert_eq!(ask("other").status, 200, "the tenant's fourth");
        let denied = ask("other");
        assert_eq!(denied.json()["violated-policies"], serde_json::json!(["tenant"]));
        assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["rule=\"daily\"", "\"denied\""]), 1.0);
        assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["rule=\"second\"", "\"allowed\""]), 4.0);
    }
    let gateway = Gateway::start(&always_in_redis(&redis, TWO_RULES));
    let mut client = gateway.connect();
    let mut ask = |key: &str| client.request("GET", "/a", &[("x-key", key), ("x-tenant", key)], b"").status;
    ask("warm");
    redis.cli(&["CONFIG", "RESETSTAT"]);
    assert_eq!((0..20).map(|_| ask("one-call")).filter(|status| *status == 200).count(), 3);
    let stats = redis.cli(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_evalsha:calls=20,"), "{stats}");
    let keys = redis.cli(&["--raw", "KEYS", "*one-call*"]);
    assert_eq!(keys, "rules.{a.one-call}", "the rules of one limiter and key stand together");
}

#[test]
fn a_rule_without_its_key_follows_the_empty_key_rules() {
    let gateway = Gateway::start(&yaml(TWO_RULES));
    assert_eq!(ask(&mut gateway.connect(), "k").status, 403);
    let gateway = Gateway::start(&yaml(&format!("deny-empty-key: false, {TWO_RULES}")));
    let mut client = gateway.connect();
    let answer = ask(&mut client, "k");
    assert_eq!((answer.status, answer.header("ratelimit-policy").unwrap().contains("tenant")), (200, false));
    assert_eq!(
        [ask(&mut client, "k").status, ask(&mut client, "k").status, ask(&mut client, "k").status],
        [200, 200, 429]
    );
}

#[test]
fn an_observing_rule_admits_and_is_reported() {
    let redis = Redis::start();
    let arguments = "key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 1, \
                     would-deny-header: true, mode: observe";
    for yaml in [yaml(arguments), in_redis(&redis, arguments)] {
        let gateway = Gateway::start(&yaml);
        let mut client = gateway.connect();
        let first = ask(&mut client, "k");
        assert_eq!((first.status, first.header("x-ratelimit-would-deny")), (200, None));
        let second = ask(&mut client, "k");
        assert_eq!((second.status, second.header("x-ratelimit-would-deny")), (200, Some("a")));
        assert_eq!(second.header("x-ratelimit-remaining"), None);
        assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["\"observed\""]), 1.0);
        assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["\"denied\""]), 0.0);
    }
}

#[test]
fn an_observing_rule_denies_nothing_and_charges_nothing_for_denied_requests() {
    let redis = Redis::start();
    let arguments = "key-resolver: 'header:x-key', would-deny-header: true, limits: [\
        {name: held, replenish-rate: 1, period: 1h, burst-capacity: 3}, \
        {name: tried, replenish-rate: 1, period: 1h, burst-capacity: 2, mode: observe}, \
        {name: unused, replenish-rate: 1, period: 1h, burst-capacity: 0, mode: 'off'}]";
    for yaml in [yaml(arguments), in_redis(&redis, arguments)] {
        let gateway = Gateway::start(&yaml);
        let mut client = gateway.connect();
        let answers: Vec<_> = (0..5).map(|_| ask(&mut client, "k")).collect();
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 200, 429, 429]);
        let would: Vec<_> = answers.iter().map(|answer| answer.header("x-ratelimit-would-deny")).collect();
        assert_eq!(would, [None, None, Some("tried"), None, None]);
        assert_eq!(answers[2].header("x-ratelimit-remaining"), Some("0"), "of the rule that is held to");
        assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["rule=\"tried\"", "\"observed\""]), 1.0);
    }
}

#[test]
fn exempt_keys_are_not_counted_and_blocked_keys_are_refused() {
    let upstream = Upstream::ok("hello");
    let gateway = Gateway::start(
        &yaml(
            "key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 1, exempt: [friend, foe], \
             block: [foe, 'key:10.0.0.1'], block-status: 451",
        )
        .replace("echo:", &upstream.uri()),
    );
    let mut client = gateway.connect();
    for _ in 0..3 {
        let answer = ask(&mut client, "friend");
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, None));
    }
    assert_eq!([ask(&mut client, "foe").status, ask(&mut client, "10.0.0.1").status], [451, 451]);
    assert_eq!([ask(&mut client, "k").status, ask(&mut client, "k").status], [200, 429]);
    assert_eq!(upstream.requests().len(), 4);
    let count = |verdict: &str| gateway.metric("tollgate_limiter_decisions_total", &[verdict, "source=\"none\""]);
    assert_eq!((count("\"exempt\""), count("\"blocked\"")), (3.0, 2.0));
    let by_network = |list: &str| {
        let rule = "key-resolver: 'header:x-key', replenish-rate: 1, burst-capacity: 0";
        ask(&mut Gateway::start(&yaml(&format!("{rule}, {list}"))).connect(), "k").status
    };
    assert_eq!(by_network("exempt: [127.0.0.0/8]"), 200);
    assert_eq!(by_network("exempt: ['::ffff:127.0.0.1']"), 200);
    assert_eq!(by_network("block: ['::ffff:127.0.0.0/104']"), 403);
    assert_eq!(by_network("block: [127.0.0.0/8], exempt: [127.0.0.1]"), 403);
    assert_eq!(by_network("exempt: [10.0.0.0/8]"), 429);
}

#[test]
fn routes_share_a_bucket_by_name() {
    let redis = Redis::start();
    let routes = "routes:\n  - {id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: RequestRateLimiter, args: \
        {bucket: pool, replenish-rate: 1, period: 1h, burst-capacity: 3, key-resolver: 'header:x-key'}}]}\n  \
        - {id: b, uri: 'echo:', predicates: [Path=/b], filters: [{name: RequestRateLimiter, args: \
        {bucket: pool, replenish-rate: 1, period: 1h, burst-capacity: 3, key-resolver: 'header:x-key', cost: 2}}]}\n";
    for yaml in [routes.to_owned(), format!("redis: {{url: '{}', timeout: 5s}}\n{routes}", redis.url())] {
        let gateway = Gateway::start(&yaml);
        let mut client = gateway.connect();
        let mut ask = |path: &str| client.request("GET", path, &[("x-key", "k")], b"").status;
        assert_eq!([ask("/a"), ask("/b"), ask("/a"), ask("/b")], [200, 200, 429, 429]);
    }
    assert_eq!(redis.cli(&["EXISTS", "request_rate_limiter.{%23pool.k}.tokens"]), "1");
}

#[test]
fn denied_requests_are_forwarded_once_with_body_and_query() {
    let redis = Redis::start();
    let (main, busy) = (Upstream::ok("main"), Upstream::ok("busy"));
    let routes = format!(
        "routes:\n  - {{id: a, uri: '{}', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: {{replenish-rate: \
         1, period: 1h, burst-capacity: 1, key-resolver: 'header:x-key', on-limit: 'forward:/busy'}}}}]}}\n  \
         - {{id: busy, uri: '{}', predicates: [Path=/busy], filters: [{{name: RequestRateLimiter, args: {{replenish-rate: 1, \
         period: 1h, burst-capacity: 2, key-resolver: 'header:x-key', on-limit: 'forward:/busy'}}}}]}}\n",
        main.uri(),
        busy.uri()
    );
    for yaml in [routes.clone(), format!("redis: {{url: '{}', timeout: 5s}}\n{routes}", redis.url())] {
        let gateway = Gateway::start(&yaml);
        let mut client = gateway.connect();
        let mut post = || client.request("POST", "/a?q=1", &[("x-key", "k")], b"payload");
        let answers: Vec<_> = (0..4).map(|_| post()).collect();
        let statuses: Vec<_> = answers.iter().map(|answer| (answer.status, answer.text())).collect();
        assert_eq!(statuses[..3], [(200, "main".to_owned()), (200, "busy".to_owned()), (200, "busy".to_owned())]);
        assert_eq!(answers[3].status, 429, "the second limiter denies, and no request is forwarded twice");
        assert_eq!((answers[1].header("retry-after"), answers[3].header("retry-after").is_some()), (None, true));
        assert_eq!(answers[1].all("x-ratelimit-remaining"), ["0", "1"]);
        // Also after a reload: the route is looked up in the current table.
        gateway.reload(&yaml.replace("burst-capacity: 2", "burst-capacity: 3"));
        assert_eq!(post().text(), "busy");
    }
    let forwarded = busy.requests();
    assert_eq!((forwarded[0].target(), forwarded[0].body.as_slice()), ("/busy?q=1", &b"payload"[..]));
    let gateway =
        Gateway::start(&yaml("replenish-rate: 1, burst-capacity: 0, key-resolver: ip, on-limit: 'forward:/none'"));
    assert_eq!(gateway.get("/a").status, 404, "no route matches");
}

#[test]
fn a_denial_has_the_configured_body_and_header_families() {
    let gateway = Gateway::start(&yaml(
        "replenish-rate: 1, period: 1m, burst-capacity: 1, key-resolver: 'header:x-key', headers: [draft, legacy], \
         body: {content-type: application/json, text: '{\"rule\":\"{rule}\",\"wait\":{retry-after},\"of\":{limit},\"who\":\"{plan}/{key}\"}'}, \
         plans: {gold: {replenish-rate: 1, period: 1m, burst-capacity: 1}}, plan-resolver: {table: {k: gold}}",
    ));
    let mut client = gateway.connect();
    let allowed = ask(&mut client, "k");
    assert_eq!(allowed.header("ratelimit-policy"), Some("\"a\";q=1;w=60"));
    assert_eq!(allowed.header("ratelimit"), Some("\"a\";r=0;t=60"));
    assert_eq!((allowed.header("x-ratelimit-limit"), allowed.header("x-ratelimit-reset")), (Some("1"), Some("60")));
    assert_eq!(allowed.header("x-ratelimit-replenish-rate"), None);
    let denied = ask(&mut client, "k");
    assert_eq!((denied.status, denied.header("content-type")), (429, Some("application/json")));
    let body = denied.json();
    assert_eq!((body["rule"].as_str(), body["of"].as_u64()), (Some("a"), Some(1)));
    assert_eq!(body["who"].as_str(), Some("gold/k"));
    assert_eq!(Some(body["wait"].to_string().as_str()), denied.header("retry-after"));
}

#[test]
fn addresses_are_grouped_by_the_configured_prefix_length() {
    let gateway = Gateway::start(&format!(
        "trusted-proxies: [127.0.0.1]\nkey-resolvers: {{net: ip/24/48}}\n{}",
        yaml("replenish-rate: 1, period: 1h, burst-capacity: 1, key-resolver: '#{@net}'")
    ));
    let mut client = gateway.connect();
    let mut from = |address: &str| client.request("GET", "/a", &[("x-forwarded-for", address)], b"").status;
    assert_eq!([from("192.0.2.1"), from("192.0.2.200"), from("192.0.3.1")], [200, 429, 200]);
    assert_eq!([from("2001:db8:1:2::1"), from("2001:db8:1:ffff::1"), from("2001:db8:2::1")], [200, 429, 200]);
}

#[test]
fn every_algorithm_can_be_configured() {
    let redis = Redis::start();
    for rule in [
        "algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 3",
        "algorithm: fixed-window, limit: 3, window: 1h",
        "algorithm: fixed-window, limit: 3, window: year, time-zone: Europe/Berlin",
        "algorithm: sliding-window-log, limit: 3, window: 1h",
        "algorithm: sliding-window-counter, limit: 3, window: 24h",
        "algorithm: quota, allowance: 3",
        "algorithm: quota, allowance: 3, reset: year",
    ] {
        let arguments = format!("key-resolver: 'header:x-key', headers: [draft], {rule}");
        for yaml in [yaml(&arguments), in_redis(&redis, &arguments)] {
            redis.cli(&["FLUSHALL"]);
            let gateway = Gateway::start(&yaml);
            let mut client = gateway.connect();
            let answers: Vec<_> = (0..5).map(|_| ask(&mut client, "k")).collect();
            let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, [200, 200, 200, 429, 429], "{rule}");
            assert!(answers[0].header("ratelimit").unwrap().starts_with("\"a\";r=2"), "{rule}");
            assert_eq!(answers[0].header("x-ratelimit-degraded"), None, "{rule}");
        }
    }
}

#[test]
fn a_request_forwarded_to_its_own_route_is_denied_there() {
    let gateway = Gateway::start(
        "routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: {\
         algorithm: quota, allowance: 1, key-resolver: ip, on-limit: 'forward:/again'}}]}]",
    );
    let statuses = [200, 429, 429].map(|_| gateway.connect().request("GET", "/a", &[], b"").status);
    assert_eq!(statuses, [200, 429, 429]);
}
