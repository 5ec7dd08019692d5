//! `atomicity: lock` on a server that refuses scripts.

use std::time::{Duration, Instant};

use crate::support::client::Response;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::load::{Load, statuses};
use crate::support::redis::Redis;

const LOCK: &str = "atomicity: lock, lock: {retry: fixed, delay: 2ms, tries: 100000}";

fn without_scripts() -> Redis {
    let renamed = ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "SCRIPT", "FUNCTION", "FCALL", "FCALL_RO"];
    let arguments: Vec<&str> = renamed.iter().flat_map(|command| ["--rename-command", command, ""]).collect();
    Redis::start_with(&arguments)
}

/// Returns a route `/ID` for each of these limiters. The timeout is long enough for two busy cores.
fn yaml(redis: &Redis, limiters: &[(&str, &str)]) -> String {
    let mut yaml = format!("redis: {{url: '{}', timeout: 20s}}\nroutes:\n", redis.url());
    for (id, arguments) in limiters {
        yaml.push_str(&format!(
            "  - {{id: {id}, uri: 'echo:', predicates: [Path=/{id}], filters: [{{name: RequestRateLimiter, \
             args: {{key-resolver: 'header:x-key', {arguments}}}}}]}}\n"
        ));
    }
    yaml
}

fn ask(gateway: &Gateway, path: &str, key: &str) -> Response {
    gateway.connect().request("GET", path, &[("x-key", key)], b"")
}

#[test]
fn two_gateways_of_64_clients_keep_to_one_limit_under_a_lock() {
    let redis = without_scripts();
    let yaml = yaml(&redis, &[("a", &format!("algorithm: fixed-window, limit: 100, window: 1h, {LOCK}"))]);
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    let load = Load::start(&gateways.each_ref().map(|gateway| gateway.address), 64, &["/a"]);
    load.more(400);
    let exchanges = load.stop();
    let counts = statuses(&exchanges);
    println!("{counts:?}");
    assert!(counts.len() == 2 && counts[0] == (200, 100) && counts[1].0 == 429, "{counts:?}");
    assert!(exchanges.iter().all(|exchange| exchange.header("x-ratelimit-degraded").is_none()));
    assert_eq!(redis.cli(&["--raw", "KEYS", "*"]), "window.{a.k}", "and no lock is left");
    for gateway in &gateways {
        assert!(!gateway.log().contains("deciding without redis"), "nothing failed: {}", gateway.log());
        assert_eq!(gateway.admin("/health/ready").status, 200);
    }
    let contended = gateways.each_ref().map(|gateway| gateway.metric("tollgate_redis_lock_contended_total", &[]));
    assert!(contended.iter().sum::<f64>() > 0.0, "64 clients wanted one lock");
}

#[test]
fn a_refusal_without_the_lock_is_not_degraded() {
    let redis = without_scripts();
    let yaml = yaml(&redis, &[("a", &format!("algorithm: fixed-window, limit: 100, window: 1h, {LOCK}"))]);
    let gateway = Gateway::start(&yaml.replace("timeout: 20s", "timeout: 1s"));
    eventually("redis decides", || ask(&gateway, "/a", "warm").header("x-ratelimit-degraded").is_none());
    let decisions = |labels: &[&str]| gateway.metric("tollgate_limiter_decisions_total", labels);
    let before = decisions(&["source=\"fallback\""]);
    redis.cli(&["SET", "window.{a.k}.lock", "other"]);
    let answer = ask(&gateway, "/a", "k");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!((answer.header("x-ratelimit-remaining"), answer.header("x-ratelimit-degraded")), (Some("-1"), None));
    assert_eq!(decisions(&["verdict=\"unavailable\"", "source=\"redis\""]), 1.0);
    assert_eq!(decisions(&["source=\"fallback\""]), before);
    assert_eq!(gateway.metric("tollgate_redis_lock_exhausted_total", &[]), 1.0);
}

#[test]
fn limiters_without_scripts_work_and_the_error_of_others_is_logged_once() {
    told_once(&without_scripts());
}

#[test]
fn a_server_that_loads_scripts_but_refuses_evalsha_fails_the_first_call() {
    told_once(&Redis::start_with(&["--rename-command", "EVALSHA", ""]));
}

fn told_once(redis: &Redis) {
    redis.cli(&["HSET", "plans", "rich", "gold"]);
    let plans = format!(
        "algorithm: fixed-window, limit: 1, window: 1h, {LOCK}, plans: {{gold: {{algorithm: fixed-window, limit: 2, \
         window: 1h}}}}, plan-resolver: {{redis-hash: plans}}"
    );
    let gateway = Gateway::start(&yaml(
        redis,
        &[
            ("counter", &format!("algorithm: sliding-window-counter, limit: 2, window: 8760h, {LOCK}")),
            ("plans", &plans),
            ("bucket", "replenish-rate: 1, period: 1h, burst-capacity: 2"),
            ("denying", "replenish-rate: 1, burst-capacity: 1, on-store-failure: deny"),
        ],
    ));
    let statuses = |path: &str, key: &str| [0; 3].map(|_| ask(&gateway, path, key).status);
    // More than five failures: a breaker that took them for an outage would block the reading of plans.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1_200) {
        assert_eq!(ask(&gateway, "/denying", "k").status, 503);
    }
    let answer = ask(&gateway, "/bucket", "k");
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("1")));
    assert!(answer.header("x-ratelimit-degraded").is_some());
    assert_eq!(statuses("/bucket", "other"), [200, 200, 429], "decided in memory");
    assert_eq!(statuses("/counter", "k"), [200, 200, 429]);
    assert_eq!(statuses("/plans", "rich"), [200, 200, 429]);
    assert_eq!(statuses("/plans", "poor"), [200, 429, 429]);
    assert_eq!(ask(&gateway, "/counter", "k").header("x-ratelimit-degraded"), None);
    let log = gateway.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("redis runs no scripts")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("`atomicity: lock`"), "{log}");
    assert!(!log.contains("cannot connect"), "{log}");
    assert!(gateway.metric("tollgate_redis_errors_total", &["no_scripts"]) >= 5.0);
    assert_eq!(gateway.metric("tollgate_redis_errors_total", &["breaker_open"]), 0.0);
}
