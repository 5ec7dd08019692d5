//! Outages of Redis, and recovery, as clients see them.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::client::Response;
use crate::support::gateway::Gateway;
use crate::support::load::{Exchange, Load, statuses};
use crate::support::redis::Redis;
use crate::support::upstream::Upstream;
use crate::support::{eventually, free_address};

pub const PATHS: &[&str; 3] = &["/local", "/allow", "/deny"];

/// One route for each `on-store-failure`.
pub fn yaml(url: &str, burst: u32) -> String {
    let mut yaml = format!("redis: {{url: '{url}'}}\nroutes:\n");
    for failure in ["local", "allow", "deny"] {
        yaml.push_str(&format!(
            "  - {{id: {failure}, uri: 'echo:', predicates: [Path=/{failure}], filters: [{{name: RequestRateLimiter, \
             args: {{key-resolver: 'header:x-key', replenish-rate: 1, burst-capacity: {burst}, \
             on-store-failure: {failure}}}}}]}}\n"
        ));
    }
    yaml
}

fn ask(gateway: &Gateway, path: &str) -> Response {
    gateway.connect().request("GET", path, &[("x-key", "k"), ("accept", "application/json")], b"")
}

fn is_degraded(answer: &Response) -> bool {
    answer.header("x-ratelimit-degraded").is_some()
}

/// Waits until `gateway` decides in Redis again; returns the time that it took.
#[track_caller]
pub fn recovered(gateway: &Gateway, since: Instant) -> Duration {
    eventually("the gateway decides in redis again", || {
        let answer = ask(gateway, "/local");
        assert_eq!(answer.status, 200);
        !is_degraded(&answer)
    });
    since.elapsed()
}

/// Checks an outage from `begin` to `end` under load.
pub fn assert_bearable(exchanges: &[Exchange], begin: Instant, end: Instant) {
    for exchange in exchanges {
        let answer = exchange.answer.as_ref().expect("every request gets a response");
        if exchange.path == "/deny" {
            assert!(matches!(exchange.status(), 200 | 503), "{answer:?}");
            assert!(exchange.status() == 200 || answer.header("retry-after") == Some("1"), "{answer:?}");
        } else {
            assert_eq!(exchange.status(), 200, "{}: {answer:?}", exchange.path);
        }
    }
    let mut took: Vec<Duration> =
        exchanges.iter().filter(|e| e.sent >= begin && e.sent <= end).map(|e| e.took).collect();
    took.sort();
    let median = took[took.len() / 2];
    let longest = exchanges.iter().map(|exchange| exchange.took).max().unwrap();
    println!("{} requests in the outage: median {median:?}, longest {longest:?}", took.len());
    assert!(median < Duration::from_millis(50), "decisions are fast once the breaker is open: {median:?}");
    assert!(longest < Duration::from_secs(2), "no request takes longer than the budget: {longest:?}");
}

#[test]
fn killing_redis_under_load_causes_no_5xx_and_recovers_within_a_second() {
    let mut redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis.url(), 1_000_000));
    let load = Load::start(&[gateway.address], 9, PATHS);
    load.more(500);
    let begin = Instant::now();
    redis.kill();
    load.more(500);
    gateway.logged("cannot connect to redis");
    load.more(500);
    let end = Instant::now();
    redis.restart();
    let back = recovered(&gateway, Instant::now());
    println!("decided in redis again {back:?} after its first PONG");
    let returned = Instant::now();
    load.more(100);
    let exchanges = load.stop();
    assert_bearable(&exchanges, begin, end);
    assert!(back < Duration::from_millis(1500), "{back:?}");
    let later = exchanges.iter().filter(|exchange| exchange.sent > returned);
    assert_eq!(statuses(later).first().map(|(status, _)| *status), Some(200));
    let during = exchanges.iter().filter(|e| e.sent > begin && e.sent < end);
    assert!(during.clone().any(|e| e.path == "/deny" && e.status() == 503));
    assert!(during.clone().any(|e| e.path == "/allow" && e.header("x-ratelimit-remaining") == Some("-1")));
    assert!(gateway.log().contains("reconnected to redis"));
}

#[test]
fn a_redis_that_hangs_under_load_causes_no_5xx() {
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis.url(), 1_000_000));
    let load = Load::start(&[gateway.address], 9, PATHS);
    load.more(500);
    let begin = Instant::now();
    redis.freeze();
    gateway.logged("deciding without redis");
    load.more(1500);
    let end = Instant::now();
    redis.thaw();
    let back = recovered(&gateway, Instant::now());
    println!("decided in redis again {back:?} after it went on");
    let exchanges = load.stop();
    assert_bearable(&exchanges, begin, end);
    assert!(back < Duration::from_millis(1500), "{back:?}");
}

#[test]
fn on_store_failure_local_allow_and_deny_decide_without_redis() {
    let gateway = Gateway::start(&yaml(&format!("redis://{}", free_address()), 3));
    let answers: Vec<Response> = (0..4).map(|_| ask(&gateway, "/local")).collect();
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 200, 429]);
    assert!(answers.iter().all(|answer| answer.header("x-ratelimit-degraded") == Some("fallback")));
    assert_eq!(answers[0].header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(answers[3].header("retry-after"), Some("1"));

    for _ in 0..5 {
        let answer = ask(&gateway, "/allow");
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("-1")));
        assert!(is_degraded(&answer));
    }

    let answer = ask(&gateway, "/deny");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(is_degraded(&answer));

    let fallbacks = |route: &str, verdict: &str| {
        let labels = [&format!("route=\"{route}\""), &format!("verdict=\"{verdict}\""), "source=\"fallback\""];
        gateway.metric("tollgate_limiter_decisions_total", &labels.map(|label: &str| label))
    };
    assert_eq!((fallbacks("local", "allowed"), fallbacks("local", "denied")), (3.0, 1.0));
    assert_eq!((fallbacks("allow", "allowed"), fallbacks("deny", "unavailable")), (5.0, 1.0));
}

#[test]
fn a_redis_started_after_the_gateway_is_used() {
    let mut redis = Redis::start();
    redis.kill();
    let gateway = Gateway::start(&yaml(&redis.url(), 1000));
    gateway.logged("cannot connect to redis");
    assert!(is_degraded(&ask(&gateway, "/local")));
    let health = gateway.admin("/actuator/health").json();
    assert_eq!((&health["status"], &health["components"]["redis"]["status"]), (&"UP".into(), &"DOWN".into()));
    eventually("it serves, so it is ready", || gateway.admin("/health/ready").status == 200);
    assert_eq!(gateway.metric("tollgate_breaker_state", &[]), 1.0);
    redis.restart();
    let back = recovered(&gateway, Instant::now());
    println!("decided in redis {back:?} after its first PONG");
    assert!(back < Duration::from_millis(1500), "{back:?}");
    assert_eq!(gateway.admin("/actuator/health").json()["components"]["redis"]["status"], "UP");
    assert_eq!(gateway.metric("tollgate_breaker_state", &[]), 0.0);
}

#[test]
fn a_redis_that_hangs_delays_the_start_briefly() {
    let redis = Redis::start();
    redis.freeze();
    let gateway = Gateway::start(&yaml(&redis.url(), 1000));
    let start = Instant::now();
    let answer = ask(&gateway, "/local");
    println!("first answer {:?} after it listened, with a redis that hangs", start.elapsed());
    assert_eq!((answer.status, is_degraded(&answer)), (200, true));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    redis.thaw();
    let back = recovered(&gateway, Instant::now());
    assert!(back < Duration::from_millis(1500), "{back:?}");
}

#[test]
fn readiness_can_depend_on_redis() {
    let mut redis = Redis::start();
    redis.kill();
    let more = "management: {readiness: {redis: true}}\n";
    let gateway = Gateway::start(&(yaml(&redis.url(), 1000) + more));
    eventually("it says why it is not ready", || {
        let unready = gateway.admin("/health/ready");
        assert_eq!(unready.status, 503);
        unready.json()["reason"] == "Redis is unreachable"
    });
    assert_eq!(gateway.admin("/health/live").status, 200);
    redis.restart();
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
}

#[test]
fn a_wrong_password_is_logged_without_its_text() {
    let redis = Redis::start_with(&["--requirepass", "right-one"]);
    for (url, code) in [
        (format!("redis://:s3cret-wrong@{}", redis.address), "WRONGPASS"),
        (format!("redis://stranger:s3cret-wrong@{}", redis.address), "WRONGPASS"),
        (format!("redis://{}", redis.address), "NOAUTH"),
    ] {
        let gateway = Gateway::start(&yaml(&url, 1000));
        let line = gateway.logged("cannot connect to redis");
        assert!(line.contains("auth") && line.contains("redis.url"), "{code}: {line}");
        let answer = ask(&gateway, "/local");
        assert_eq!((answer.status, is_degraded(&answer)), (200, true));
        let shown = gateway.log() + &gateway.admin("/actuator/health").text() + &gateway.admin("/metrics").text();
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[test]
fn a_redis_that_refuses_writes_is_treated_as_an_outage() {
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis.url(), 1000));
    assert!(!is_degraded(&ask(&gateway, "/local")));
    for (break_it, mend_it) in [
        (&["CONFIG", "SET", "maxmemory", "1"][..], &["CONFIG", "SET", "maxmemory", "0"][..]),
        (&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]),
        (&["CONFIG", "SET", "requirepass", "x"], &["-a", "x", "--no-auth-warning", "CONFIG", "SET", "requirepass", ""]),
    ] {
        assert_eq!(redis.cli(break_it), "OK");
        if break_it[2] == "requirepass" {
            redis.cli(&["-a", "x", "--no-auth-warning", "CLIENT", "KILL", "TYPE", "pubsub"]);
        }
        eventually("redis fails", || {
            let answer = ask(&gateway, "/local");
            assert_eq!(answer.status, 200, "{break_it:?}");
            is_degraded(&answer)
        });
        assert_eq!(ask(&gateway, "/allow").status, 200);
        assert!(matches!(ask(&gateway, "/deny").status, 503), "{break_it:?}");
        assert_eq!(redis.cli(mend_it), "OK");
        let back = recovered(&gateway, Instant::now());
        println!("{break_it:?}: decided in redis again after {back:?}");
        assert!(back < Duration::from_millis(1500), "{break_it:?}: {back:?}");
    }
}

#[test]
fn a_server_that_is_not_redis_causes_no_errors() {
    let scripts: [fn(&mut std::net::TcpStream); 4] = [
        |_| {},
        |stream| drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        |stream| drop(stream.write_all(b"$999999999999\r\n")),
        |stream| {
            while stream.write_all(b"*2\r\n:1\r\n$-7\r\n+OK\r\n").is_ok() {
                let _ = std::io::Read::read(stream, &mut [0; 512]);
            }
        },
    ];
    for (number, script) in scripts.into_iter().enumerate() {
        let impostor = Upstream::scripted(move |stream, _| script(stream));
        let gateway = Gateway::start(&yaml(&format!("redis://{}", impostor.address), 1000));
        for _ in 0..20 {
            let answer = ask(&gateway, "/local");
            assert_eq!((answer.status, is_degraded(&answer)), (200, true), "impostor {number}");
        }
        let resident = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
        let line = resident.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kilobytes < 200_000, "impostor {number}: {kilobytes} kB");
    }
}
