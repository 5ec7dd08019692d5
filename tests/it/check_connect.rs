//! `tollgate check --connect`, with real servers.

use std::io::Read as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_test_support::{Certificates, MASTER, Sentinels};

use crate::support::dns::Dns;
use crate::support::free_address;
use crate::support::gateway::run;
use crate::support::redis::Redis;
use crate::support::secure::{Keys, Server, ServerProtocol};
use crate::support::upstream::Upstream;

/// Checks `yaml` with `--connect`. Returns the warnings, each as its line and message, and true if the file is valid.
fn check(yaml: &str) -> (Vec<(usize, String)>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, yaml).unwrap();
    let (_, out, _) = run(&["check", "--json", "--connect", "--max-problems", "0", file.to_str().unwrap()]);
    let result: Value = serde_json::from_str(&out).unwrap();
    let warnings = result["diagnostics"].as_array().unwrap().iter().map(|diagnostic| {
        assert_eq!(diagnostic["severity"], "warning", "{diagnostic}");
        let line = usize::try_from(diagnostic["line"].as_u64().unwrap()).unwrap();
        (line, format!("{}; {}", diagnostic["message"].as_str().unwrap(), diagnostic["help"].as_str().unwrap_or("")))
    });
    (warnings.collect(), result["valid"] == true)
}

/// Asserts that `--connect` warns on these lines only, with these words.
#[track_caller]
fn assert_warnings(yaml: &str, expected: &[(usize, &[&str])]) {
    let (warnings, is_valid) = check(yaml);
    let lines: Vec<_> = warnings.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, expected.iter().map(|(line, _)| *line).collect::<Vec<_>>(), "{warnings:?}");
    for ((line, message), (_, words)) in warnings.iter().zip(expected) {
        assert!(words.iter().all(|word| message.contains(word)), "line {line}: {message}, expected {words:?}");
    }
    assert!(is_valid, "servers that are down do not make a file invalid");
}

fn route(id: &str, uri: &str) -> String {
    format!("- {{id: {id}, uri: '{uri}', predicates: [Path=/{id}/**]}}\n")
}

#[test]
fn each_server_that_cannot_be_used_is_a_warning_at_its_place() {
    let made = Certificates::new();
    let (ca, ok) = (made.ca(), Upstream::ok("x"));
    let trusted = Server::echoing(ServerProtocol::tls(Keys::of(&made), &["http/1.1"]));
    let untrusted = trusted.uri("https").replace("localhost", "127.0.0.1");
    let plain = Upstream::scripted(|stream, _| {
        let _ = stream.read(&mut [0; 1024]);
    });
    let dns = Dns::start();
    let (closed, registry) = (free_address(), free_address());
    let with_ca = format!(
        "- {{id: c, uri: '{}', tls: {{ca: '{}'}}, predicates: [Path=/c/**]}}\n",
        trusted.uri("https"),
        ca.display()
    );
    let yaml = format!(
        "upstreams:\n  u:\n    endpoints:\n    - '{good}'\n    - uri: 'http://{closed}'\n  d:\n    dns: {{name: none.test}}\n\
         dns: {{server: '{}'}}\n\
         consul: {{host: 127.0.0.1, port: {}}}\n\
         routes:\n{}{}{}{}{}{}",
        dns.address,
        registry.port(),
        route("a", "lb://u"),
        route("b", "lb://d"),
        with_ca,
        route("d", &untrusted),
        route("e", &format!("https://{}", plain.address)),
        route("f", &format!("http://{closed}")),
        good = ok.uri(),
    );
    let refused: &[&str] = &[&format!("`{closed}`"), "refused"];
    let expected: [(usize, &[&str]); 5] = [
        (5, refused),
        (7, &["`none.test` has no endpoints in DNS"]),
        (9, &[&format!("`{registry}`"), "refused"]),
        (14, &["not signed by a trusted CA"]),
        (15, &["the upstream"]),
    ];
    assert_warnings(&yaml, &expected);
    assert_eq!(trusted.connections(), 2, "one for each TLS setting");
}

#[test]
fn without_connect_no_server_is_called() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    upstream.set_nonblocking(true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.yaml");
    let address = upstream.local_addr().unwrap();
    let yaml = format!("redis: {{url: 'redis://{address}'}}\nroutes:\n{}", route("a", &format!("http://{address}")));
    std::fs::write(&file, yaml).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(run(&["check", file]).0, Some(0));
    assert!(upstream.accept().is_err(), "no connection waits");
    let (code, out, err) = run(&["check", "--connect", file]);
    assert!(upstream.accept().is_ok(), "{out}{err}");
    assert_eq!(code, Some(0), "the warnings change no exit code");
    assert!(err.contains(&format!("{file}:1:")) && err.contains("no reply"), "with the place and an excerpt: {err}");
}

#[test]
fn servers_that_never_answer_take_one_bound_of_time_together() {
    // The kernel accepts connections, and TLS gets no reply.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let routes: String = (0..200)
        .map(|at| route(&format!("r{at}"), &format!("https://127.0.0.{}:{}", at + 1, address.port())))
        .collect();
    let only = format!("routes:\n{}", route("a", &format!("https://{address}")));
    let start = Instant::now();
    assert_warnings(&only, &[(2, &["no reply within 5s"])]);
    let (warnings, _) = check(&format!("routes:\n{routes}"));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(warnings.len(), 200, "one is silent, the others refuse");
}

const LIMIT: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: {replenish-rate: 1, \
                     key-resolver: ip}}]}]\n";

#[test]
fn redis_says_which_login_or_permission_fails() {
    let user = |words: &str| format!("gateway on >secret ~* resetchannels {words}");
    let redis = Redis::start_with(&["--requirepass", "secret"]);
    redis.query::<()>(&[&["ACL", "SETUSER"], &*user("-@all +mget").split(' ').collect::<Vec<_>>()].concat()).unwrap();
    let at = |settings: &str| format!("{LIMIT}redis: {{host: 127.0.0.1, port: {}, {settings}}}\n", redis.port);
    assert_warnings(&at("password: secret"), &[]);
    assert_warnings(&at("password: secret, protocol: resp2"), &[]);
    assert_warnings(&at("password: wrong"), &[(2, &["WRONGPASS", "check user name and password"])]);
    assert_warnings(&at(""), &[(2, &["NOAUTH"])]);
    let as_user = at("username: gateway, password: secret");
    assert_warnings(&as_user, &[(2, &["refuses `EVALSHA`", "NOPERM", "'evalsha'"])]);
    for (words, expected) in
        [("+evalsha", Some("refuses `EVAL`")), ("+eval", None), ("-eval", Some("`EVAL`")), ("+script|load", None)]
    {
        redis.query::<()>(&["ACL", "SETUSER", "gateway", words]).unwrap();
        match expected {
            Some(text) => assert_warnings(&as_user, &[(2, &[text, "NOPERM"])]),
            None => assert_warnings(&as_user, &[]),
        }
    }
    let locked = as_user.replace("replenish-rate: 1", "algorithm: fixed-window, window: 1s, limit: 1, atomicity: lock");
    redis.query::<()>(&["ACL", "SETUSER", "gateway", "-evalsha"]).unwrap();
    assert_warnings(&locked, &[(2, &["refuses `PING`", "NOPERM"])]);
    let keys: Vec<String> = redis.query(&["KEYS", "*"]).unwrap();
    assert!(keys.is_empty(), "the check writes nothing: {keys:?}");
}

#[test]
fn redis_that_is_away_or_has_another_certificate_is_a_warning() {
    let closed = free_address();
    assert_warnings(&format!("redis: {{url: 'redis://{closed}'}}\n{LIMIT}"), &[(1, &["refused"])]);
    let made = Certificates::new();
    let redis = Redis::start_tls(&made, false, &[]);
    let of = |settings: &str| format!("{LIMIT}redis:\n  url: '{}'\n  tls: {settings}\n", redis.tls_url());
    assert_warnings(&of(&format!("{{ca: '{}'}}", made.ca().display())), &[]);
    assert_warnings(&of("true"), &[(3, &["TLS", "redis.tls.ca"])]);
    let node = redis.url().replace("redis://", "");
    let nodes = format!("{LIMIT}redis:\n  cluster:\n    nodes:\n    - '{node}'\n    - '{closed}'\n");
    assert_warnings(&nodes, &[(5, &["CLUSTER SLOTS"]), (6, &["refused"])]);
}

#[test]
fn sentinels_are_asked_for_the_primary() {
    let sentinels = Sentinels::start();
    let nodes = sentinels.addresses().join("', '");
    let closed = free_address();
    let of = |name: &str| {
        format!("{LIMIT}redis:\n  sentinel:\n    master: {name}\n    nodes: ['{nodes}',\n      '{closed}']\n")
    };
    assert_warnings(&of(MASTER), &[(6, &["refused"])]);
    let (warnings, _) = check(&of("other"));
    assert_eq!(
        warnings.iter().filter(|(_, message)| message.contains("refuses `SENTINEL`")).count(),
        sentinels.addresses().len()
    );
}
