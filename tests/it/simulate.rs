//! `tollgate simulate`: replays of access logs.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE};

pub(crate) fn simulate(arguments: &[&str]) -> Output {
    Command::new(TOLLGATE).arg("simulate").args(arguments).output().unwrap()
}

pub(crate) fn simulate_json(arguments: &[&str]) -> Value {
    let output = simulate(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Routes with every algorithm, several rules, observed ones, and keys from addresses, headers and queries.
const ROUTES: &str = "
routes:
- id: ip
  uri: 'echo:'
  predicates: [Path=/ip]
  filters: [{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 300, burst-capacity: 20}}]
- id: header
  uri: 'echo:'
  predicates: [Path=/header]
  filters:
  - {name: RequestRateLimiter, args: {key-resolver: 'header:x-key', limits: [
      {name: second, algorithm: sliding-window-counter, limit: 40, window: 1s},
      {name: window, algorithm: fixed-window, limit: 30, window: 1s, align: clock},
      {name: seen, algorithm: gcra, replenish-rate: 100, burst-capacity: 3, mode: observe}]}}
- id: query
  uri: 'echo:'
  predicates: [Path=/query, Query=k]
  filters:
  - {name: RequestRateLimiter, args: {key-resolver: 'query:k', algorithm: sliding-window-log, limit: 50, window: 1s}}
  - {name: RequestRateLimiter, args: {key-resolver: path, algorithm: gcra, replenish-rate: 400, burst-capacity: 4}}
- id: paced
  uri: 'echo:'
  predicates: [Path=/paced]
  filters:
  - {name: RequestRateLimiter, args: {key-resolver: path, algorithm: leaky-bucket, rate: 500, max-queue: 4, max-wait: 4ms}}
- id: listed
  uri: 'echo:'
  predicates: [Path=/listed]
  filters:
  - {name: RequestRateLimiter, args: {key-resolver: 'header:x-key', exempt: [a], block: [b], algorithm: fixed-window, limit: 9, window: 1s}}
- id: planned
  uri: 'echo:'
  predicates: [Path=/planned]
  filters:
  - {name: RequestRateLimiter, args: {key-resolver: 'header:x-key', replenish-rate: 30, burst-capacity: 6, requested-tokens: 2,
      plan-resolver: {table: {a: gold}}, plans: {gold: {replenish-rate: 200, burst-capacity: 20}}}}
- id: share
  uri: 'echo:'
  predicates: [Path=/share]
  filters:
  - {name: RequestRateLimiter, args: {key-resolver: 'header:x-key', enforce-percent: 50, replenish-rate: 40, burst-capacity: 3}}
- id: free
  uri: 'echo:'
  predicates: [Path=/free]
";

/// Sends requests to two workers, and returns the log.
fn recorded_traffic(folder: &Path, requests: usize) -> std::path::PathBuf {
    let log = folder.join("access.log");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 2}}\naccess-log: {{output: '{}', format: json}}\n{ROUTES}",
        text(&log)
    ));
    let clients = 8;
    std::thread::scope(|scope| {
        for client in 0..clients {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut connection = gateway.connect();
                for number in 0..requests / clients {
                    let key = (number * 7 + client) % 3;
                    let header = [("x-key", ["a", "b", "c"][key])];
                    match number % 8 {
                        0 => connection.request("GET", "/ip", &[], b""),
                        1 => connection.request("GET", "/header", &header, b""),
                        2 => connection.request("GET", &format!("/query?k={key}"), &[], b""),
                        3 => connection.request("GET", "/paced", &[], b""),
                        4 => connection.request("GET", "/listed", &header, b""),
                        5 => connection.request("GET", "/planned", &header, b""),
                        6 => connection.request("GET", "/share", &header, b""),
                        _ => connection.request("GET", "/free", &[], b""),
                    };
                }
            });
        }
    });
    let lines = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    eventually("the lines are written", || lines() >= requests);
    drop(gateway);
    std::fs::write(folder.join("tollgate.yaml"), ROUTES).unwrap();
    log
}

/// Replays recorded traffic and compares every verdict.
fn reproduces(requests: usize) {
    let folder = tempfile::tempdir().unwrap();
    let log = recorded_traffic(folder.path(), requests);
    let report = simulate_json(&[text(&folder.path().join("tollgate.yaml")), text(&log)]);
    let outcome = &report["configurations"][0];
    assert_eq!(report["input"]["lines"], requests);
    assert_eq!((&report["input"]["broken"], &report["input"]["out-of-order"]), (&0.into(), &0.into()));
    let logged = std::fs::read_to_string(&log).unwrap();
    let with_verdict = |verdict: &str| logged.lines().filter(|line| line.contains(verdict)).count();
    let judged = with_verdict("\"verdict\":");
    assert_eq!(outcome["reproduced"]["different"], 0, "{}", outcome["reproduced"]);
    assert_eq!(outcome["reproduced"]["same"], judged);
    let [denied, blocked, exempt] =
        ["denied", "blocked", "exempt"].map(|verdict| with_verdict(&format!("\"verdict\":\"{verdict}\"")));
    assert!(blocked > 0 && exempt > 0);
    let denied = denied + blocked;
    assert_eq!(outcome["denied"], denied);
    assert!(denied > judged / 20 && denied < judged, "{denied} of {judged} denied");
    let observed: u64 =
        outcome["rules"].as_array().unwrap().iter().map(|rule| rule["observed"].as_u64().unwrap()).sum();
    let observed_in_log = logged.lines().filter(|line| line.contains("\"observed\":[")).count();
    assert_eq!(observed, observed_in_log as u64);
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("its key `header:x-key` is taken from the log"), "{notes}");
}

/// `TOLLGATE_SIMULATE_REQUESTS` sets the number of requests: 100000 take half a minute.
#[test]
fn a_replay_of_our_own_log_repeats_every_verdict() {
    let requests = std::env::var("TOLLGATE_SIMULATE_REQUESTS").ok();
    reproduces(requests.map_or(8_000, |requests| requests.parse().unwrap()));
}

pub(crate) const LIMITED: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a/**], filters: [{name: RequestRateLimiter, args: \
                       {key-resolver: ip, algorithm: fixed-window, limit: 2, window: 1m}}]}]";

pub(crate) fn combined_line(second: u32, client: &str, target: &str) -> String {
    format!("{client} - - [22/Nov/2026:10:00:{second:02} +0000] \"GET {target} HTTP/1.1\" 200 1 \"-\" \"curl/8\"\n")
}

#[test]
fn combined_logs_show_who_would_be_denied_and_broken_lines_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.yaml"), LIMITED).unwrap();
    let mut lines: String = (0..5).map(|second| combined_line(second, "192.0.2.1", "/a/x")).collect();
    lines += &combined_line(6, "192.0.2.2", "/a/y");
    lines += &combined_line(7, "192.0.2.2", "/elsewhere");
    lines += "broken\n{\"also\": broken}\n\n";
    std::fs::write(path("a.log"), lines).unwrap();
    let report = simulate_json(&[text(&path("a.yaml")), text(&path("a.log"))]);
    let outcome = &report["configurations"][0];
    assert_eq!((&outcome["requests"], &outcome["denied"], &outcome["unrouted"]), (&7.into(), &3.into(), &1.into()));
    let rule = &outcome["rules"][0];
    assert_eq!((&rule["requests"], &rule["share"], &rule["peak-per-second"]), (&6.into(), &50.0.into(), &1.into()));
    assert_eq!(rule["top"][0]["key"], "192.0.2.1");
    assert_eq!(report["input"]["broken"], 2);
    assert_eq!(report["input"]["first-broken"][0]["line"], 8);
    let plain = simulate(&[text(&path("a.yaml")), text(&path("a.log"))]);
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert!(plain.contains("2 lines are broken:") && plain.contains("a.log:8: neither JSON nor common"), "{plain}");
}

#[test]
fn unknown_parts_of_requests_are_reported_and_never_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let yaml = "routes:\n- {id: vip, uri: 'echo:', predicates: [Path=/a, 'Header=X-Vip, .*']}\n\
                - {id: all, uri: 'echo:', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: \
                {key-resolver: 'header:x-key', algorithm: fixed-window, limit: 1, window: 1m}}]}\n";
    std::fs::write(path("a.yaml"), yaml).unwrap();
    let line = |second: u32, target: &str, key: &str| {
        format!("{{\"ts\":{},\"req\":{{\"uri\":\"{target}\",\"key\":\"{key}\"}}}}\n", 1_795_341_600 + second)
    };
    let lines = [line(0, "/b", "k"), line(1, "/b", "k"), line(2, "/b", "other"), line(3, "/a", "k")].concat();
    std::fs::write(path("a.log"), lines).unwrap();
    let [config, log] = ["a.yaml", "a.log"].map(path);
    let unknown = simulate_json(&[text(&config), text(&log), "--map", "time=ts,path=req.uri"]);
    let outcome = &unknown["configurations"][0];
    assert_eq!((&outcome["denied"], &outcome["undetermined"]), (&0.into(), &1.into()));
    let notes = outcome["notes"].to_string();
    for note in [
        "its key is `header:x-key`, which the log lacks (--map header.x-key=FIELD)",
        "`Header=X-Vip, .*` reads parts of requests",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
    let mapped = simulate_json(&[text(&config), text(&log), "--map", "time=ts,path=req.uri,header.X-Key=req.key"]);
    assert_eq!(mapped["configurations"][0]["denied"], 1);
}

#[test]
fn requests_that_the_gateway_answers_before_its_limiters_are_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let yaml = "trusted-proxies: [10.0.0.0/8]\n\
                cors: {allowed-origins: ['https://shop.example']}\n\
                routes:\n- {id: inner, uri: 'echo:', predicates: [Path=/inner, RemoteAddr=10.0.0.0/8]}\n\
                - {id: all, uri: 'echo:', predicates: [Path=/**], filters: [RequestSize=5MB, {name: RequestRateLimiter, \
                args: {key-resolver: ip, algorithm: fixed-window, limit: 1, window: 1m}}]}\n";
    std::fs::write(path("a.yaml"), yaml).unwrap();
    let [config, combined, own, mapped] = ["a.yaml", "combined.log", "own.log", "mapped.log"].map(path);
    let lines = combined_line(0, "192.0.2.1", "/a").replace("GET", "OPTIONS") + &combined_line(1, "192.0.2.1", "/a");
    std::fs::write(&combined, lines + &combined_line(2, "192.0.2.1", "/inner")).unwrap();
    let line = |reason: &str| {
        format!(
            "{{\"time\":\"2026-11-22T10:00:00Z\",\"client\":\"192.0.2.1\",\"target\":\"/a\",\"route\":\"all\"{reason}}}\n"
        )
    };
    let reason = |reason: &str| line(&format!(",\"reason\":\"{reason}\""));
    let lines = [reason("cors-preflight"), reason("cors-refused"), reason("request-too-large"), line(""), line("")];
    std::fs::write(&own, lines.concat()).unwrap();
    let line = |method: &str, origin: &str| {
        format!("{{\"t\":1,\"m\":\"{method}\",\"p\":\"/a\",\"o\":\"{origin}\",\"acrm\":\"-\"}}\n")
    };
    let (shop, evil) = ("https://shop.example", "https://evil.example");
    let lines = [line("OPTIONS", shop), line("GET", evil), line("GET", shop), line("OPTIONS", "-")];
    std::fs::write(&mapped, lines.concat()).unwrap();

    let counts = |arguments: &[&str]| {
        let outcome = simulate_json(arguments)["configurations"][0].clone();
        let counts = ["requests", "denied", "answered", "undetermined"].map(|name| outcome[name].as_u64().unwrap());
        (counts, outcome["notes"].to_string())
    };
    let (requests, notes) = counts(&[text(&config), text(&combined)]);
    assert_eq!(requests, [3, 0, 0, 2], "the preflight and the inner route are unknown");
    for note in [
        "OPTIONS requests may be preflights",
        "refusals by `RequestSize` are not simulated",
        "`RemoteAddr=10.0.0.0/8` reads parts of requests that the log lacks",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
    let (requests, notes) = counts(&[text(&config), text(&own)]);
    assert_eq!(requests, [5, 1, 3, 0]);
    for note in ["refusals by CORS are taken from the log", "refusals by `RequestSize` are taken from the log"] {
        assert!(notes.contains(note), "{notes}");
    }
    let map = "time=t,method=m,path=p,header.Origin=o";
    let yaml = yaml.replace("key-resolver: ip", "key-resolver: path");
    std::fs::write(&config, &yaml).unwrap();
    let (requests, _) = counts(&[text(&config), text(&mapped), "--map", map]);
    assert_eq!(requests, [4, 1, 1, 1], "an OPTIONS request without `Origin` is no preflight");
    let map = "time=t,method=m,path=p,header.Origin=o,header.Access-Control-Request-Method=acrm";
    let (requests, notes) = counts(&[text(&config), text(&mapped), "--map", map]);
    assert_eq!(requests, [4, 1, 2, 0], "OPTIONS is no allowed method");
    assert!(!notes.contains("OPTIONS"), "{notes}");
}

#[test]
fn decisions_of_concurrent_requests_are_replayed_in_the_order_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let [config, log] = ["a.yaml", "a.log"].map(|name| folder.path().join(name));
    let limiter = |arguments: &str| {
        format!("{{name: RequestRateLimiter, args: {{algorithm: fixed-window, window: 1h, {arguments}}}}}")
    };
    let (first, second) = (limiter("key-resolver: 'query:k', limit: 9"), limiter("key-resolver: path, limit: 1"));
    let route = format!("{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{first}, {second}]}}");
    std::fs::write(&config, format!("routes: [{route}]")).unwrap();
    let line = |key: &str, verdict: &str, decided: [u64; 2], order: [u64; 2]| {
        let [decided_us, order] = [decided.map(|us| 1_795_341_600_000_000 + us), order].map(|list| format!("{list:?}"));
        format!(
            "{{\"time\":\"2026-11-22T10:00:00Z\",\"target\":\"/a?k={key}\",\"route\":\"a\",\"verdict\":\"{verdict}\",\
             \"decided_us\":{decided_us},\"decided_order\":{order}}}\n"
        )
    };
    // The second decisions of `x` and `y` lie between the first ones of `y` and `z`, those of `y` after those of `x`.
    for (x, y) in [([1, 10], [2, 12]), ([1, 10], [2, 10])] {
        let y = line("y", "denied", y, [0, (x[1] == y[1]).into()]);
        let lines = y + &line("z", "denied", [15, 16], [0, 0]) + &line("x", "allowed", x, [0, 0]);
        std::fs::write(&log, &lines).unwrap();
        let report = simulate_json(&[text(&config), text(&log)]);
        assert_eq!(report["configurations"][0]["reproduced"].to_string(), r#"{"same":3,"different":0}"#, "{lines}");
    }
}
