//! Overrides of the limits of every algorithm, and the figures that clients see.

use serde_json::{Value, json};

use super::{admitted, call, limit, redis_settings, remove, set, settings};
use crate::support::client::Response;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Rules of 4 requests per window, with the name of their limit. Windows end years later, so that nothing returns
/// during a test.
const RULES: [(&str, &str, &str); 8] = [
    ("tokens", "burst-capacity", "replenish-rate: 1, period: 1h, burst-capacity: 4"),
    ("gcra", "burst-capacity", "algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 4"),
    ("window", "limit", "algorithm: fixed-window, limit: 4, window: 1h"),
    ("year", "limit", "algorithm: fixed-window, limit: 4, window: year, time-zone: Europe/Berlin"),
    ("log", "limit", "algorithm: sliding-window-log, limit: 4, window: 1h"),
    // The window that began in 2024.
    ("counter", "limit", "algorithm: sliding-window-counter, limit: 4, window: 20000d"),
    ("total", "allowance", "algorithm: quota, allowance: 4"),
    ("month", "allowance", "algorithm: quota, allowance: 4, reset: month, time-zone: Europe/Berlin"),
];

fn start(head: &str) -> Gateway {
    let route = |id: &str, rule: &str| {
        format!(
            "- id: {id}\n  uri: 'echo:'\n  predicates: [Path=/{id}]\n  filters: [{{name: RequestRateLimiter, args: \
             {{key-resolver: 'header:x-key', headers: [spring, draft, legacy], {rule}}}}}]\n"
        )
    };
    let mut routes: String = RULES.iter().map(|(id, _, rule)| route(id, rule)).collect();
    routes += &route("paced", "algorithm: leaky-bucket, rate: 1000, max-wait: 1ms, max-queue: 0");
    let body = "body: {content-type: text/plain, text: '{remaining} of {limit}'}";
    routes += &route("template", &format!("algorithm: fixed-window, limit: 1, window: 1h, {body}"));
    let gateway = Gateway::start(&format!("{}routes:\n{routes}", settings(head)));
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    gateway
}

fn ask(gateway: &Gateway, path: &str) -> Response {
    gateway.connect().request("GET", path, &[("x-key", "alice")], b"")
}

/// Returns burst, legacy limit and the quota of `RateLimit-Policy`.
fn shown(response: &Response) -> [String; 3] {
    let field = |name| response.header(name).unwrap_or_default().to_owned();
    let policy = field("ratelimit-policy");
    let quota = policy.split(';').find_map(|part| part.strip_prefix("q=")).unwrap_or_default().to_owned();
    [field("x-ratelimit-burst-capacity"), field("x-ratelimit-limit"), quota]
}

/// Overrides each rule on the first of `gateways`, and counts on all of them.
fn walk(gateways: &[&Gateway]) {
    let first = gateways[0];
    for (id, number, _) in RULES {
        let path = format!("/{id}");
        let target = format!("{id}/alice");
        let count = |each: usize| gateways.iter().map(|gateway| admitted(gateway, &path, "alice", each)).sum::<usize>();
        let follow = |capacity: u64| {
            eventually("every gateway follows", || {
                gateways.iter().all(|it| limit(it, &target)["capacity"] == capacity)
            });
        };
        assert_eq!(admitted(first, &path, "alice", 3), 3);
        assert_eq!(limit(first, &target)["numbers"][number], 4, "{id}");

        set(first, &target, &json!({number: 9, "expires-in": "1h"}));
        follow(9);
        for gateway in gateways {
            assert_eq!(shown(&ask(gateway, &path)), ["9"; 3].map(str::to_owned), "{id}: of an allowed request");
        }
        assert_eq!(count(9), 6 - gateways.len(), "{id}: 3 of 9 were spent before");
        for gateway in gateways {
            let denied = ask(gateway, &path);
            assert_eq!((denied.status, shown(&denied)), (429, ["9"; 3].map(str::to_owned)), "{id}");
            let limit = limit(gateway, &target);
            assert_eq!((&limit["numbers"][number], &limit["remaining"]), (&json!(9), &json!(0)), "{limit}");
        }

        set(first, &target, &json!({number: 6, "expires-in": "1h"}));
        follow(6);
        assert_eq!(count(3), 0, "{id}: 9 of 6 are spent");
        assert_eq!(remove(first, &target), 200);
        follow(4);
        assert_eq!(count(3), 0, "{id}: nothing spent comes back");
        for gateway in gateways {
            assert_eq!(shown(&ask(gateway, &path)), ["4"; 3].map(str::to_owned), "{id}: the configured limit");
        }

        // A stricter limit, and the looser one again.
        let bob = |count| admitted(first, &path, "bob", count);
        set(first, &format!("{id}/bob"), &json!({number: 2, "expires-in": "1h"}));
        assert_eq!((bob(5), remove(first, &format!("{id}/bob")), bob(5)), (2, 200, 2), "{id}: 4 in all");
    }
}

/// A pace has no stock to compare: the time of the next turn stays.
fn pace(gateway: &Gateway) {
    set(gateway, "paced/alice", &json!({"rate": 1, "period": "1h", "expires-in": "1h"}));
    let slow = ask(gateway, "/paced");
    let rate = |response: &Response| response.header("x-ratelimit-replenish-rate").unwrap_or_default().to_owned();
    assert_eq!((slow.status, rate(&slow)), (200, "1".to_owned()));
    let denied = ask(gateway, "/paced");
    assert_eq!((denied.status, rate(&denied)), (429, "1".to_owned()));
    assert_eq!(remove(gateway, "paced/alice"), 200);
    let denied = ask(gateway, "/paced");
    assert_eq!((denied.status, rate(&denied)), (429, "1000".to_owned()), "the turn of an hour stays taken");
    assert_eq!(admitted(gateway, "/paced", "bob", 1), 1);
}

/// Bodies, batches and other words for the limit.
fn words(gateway: &Gateway) {
    assert_eq!(ask(gateway, "/template").status, 200);
    set(gateway, "template", &json!({"limit": 3, "expires-in": "1h"}));
    assert_eq!((ask(gateway, "/template").status, ask(gateway, "/template").status), (200, 200));
    assert_eq!(String::from_utf8_lossy(&ask(gateway, "/template").body), "0 of 3");
    set(gateway, "template/bob", &json!({"limit": 7, "expires-in": "1h"}));
    let (status, batch) = call(
        gateway,
        "POST",
        "/api/limits/template",
        "{\"keys\": [{\"key\": \"alice\"}, {\"key\": \"bob\"}, {\"key\": \"carol\"}]}",
    );
    let remaining: Vec<&Value> = batch["keys"].as_array().unwrap().iter().map(|key| &key["remaining"]).collect();
    assert_eq!((status, remaining), (200, vec![&json!(0), &json!(7), &json!(3)]), "{batch}");
    assert_eq!(batch["keys"][1]["override"]["capacity"], 7, "{batch}");
    let live = &gateway.admin("/api/explain?url=/template&header=X-Key:%20bob").json();
    let live = &live["route"]["filters"][0]["counted"][0]["live"];
    assert_eq!(live["rule"], "fixed-window, 7 per 1h", "{live}");
    assert_eq!((remove(gateway, "template"), remove(gateway, "template/bob")), (200, 200));
}

#[test]
fn every_limit_can_be_overridden_in_memory_and_is_shown() {
    let gateway = start("");
    walk(&[&gateway]);
    pace(&gateway);
    words(&gateway);
}

#[test]
fn every_limit_can_be_overridden_in_redis_and_is_shown_by_two_gateways() {
    let redis = Redis::start();
    let (first, second) = (start(&redis_settings(&redis)), start(&redis_settings(&redis)));
    walk(&[&first, &second]);
    pace(&first);
    words(&first);
}
