//! Clients that others have written: grpcio and `@connectrpc/connect`. `tests/run` installs them, or leaves these tests out and
//! says so.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::free_address;
use crate::support::gateway::Gateway;

/// Folder of the clients' packages.
fn packages() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/rpc-clients");
    std::env::var_os("TOLLGATE_RPC_CLIENTS").map_or(folder, Into::into)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rpc").join(name)
}

/// Calls `methods` with grpcio through a gateway whose configuration `yaml` makes of the upstream's URI. Returns the results
/// of each method.
fn grpcio(yaml: impl Fn(&str) -> String, methods: &[&str]) -> Value {
    let python = packages().join("python/bin/python");
    let mut client = Command::new(&python)
        .arg(script("clients.py"))
        .args(methods)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; `tests/run` installs the clients", python.display()));
    let mut output = BufReader::new(client.stdout.take().unwrap());
    let mut port = String::new();
    output.read_line(&mut port).unwrap();
    let gateway = Gateway::start(&yaml(&format!("http://127.0.0.1:{}", port.trim())));
    writeln!(client.stdin.take().unwrap(), "{}", gateway.address).unwrap();
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert!(client.wait().unwrap().success());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const LIMITER: &str = "name: RequestRateLimiter, args: {key-resolver: 'header:x-key'";

#[test]
fn grpcio_reads_a_denial_its_message_and_the_time_of_a_retry() {
    let yaml = |uri: &str| {
        format!(
            "routes: [{{id: a, uri: '{uri}', metadata: {{http2: prior-knowledge}}, predicates: [Path=/**], filters: [\
             {{{LIMITER}, replenish-rate: 1, period: 100s, burst-capacity: 1, body: {{text: 'no more in {{retry-after}} s: 100 % é'}}}}}}]}}]"
        )
    };
    let results = grpcio(yaml, &["/limited.A/B", "/limited.A/B"]);
    assert_eq!(results["/limited.A/B"][0]["code"], "OK");
    let denied = &results["/limited.A/B"][1];
    assert_eq!(
        (&denied["code"], &denied["message"]),
        (&"RESOURCE_EXHAUSTED".into(), &"no more in 100 s: 100 % é".into())
    );
    let pushback: f64 = denied["metadata"]["grpc-retry-pushback-ms"].as_str().unwrap().parse().unwrap();
    let delay = denied["retry_delay"].as_f64().unwrap();
    assert!((90.0..=100.0).contains(&delay) && (0.0..=1.0).contains(&(pushback - delay * 1000.0)), "{denied}");
    assert_eq!(denied["metadata"]["x-ratelimit-remaining"], "0");
    assert_eq!(denied["metadata"]["retry-after"], "100");
}

#[test]
fn a_grpc_client_with_a_retry_policy_waits_as_long_as_the_limit_says() {
    let yaml = |uri: &str| {
        format!(
            "routes: [{{id: a, uri: '{uri}', metadata: {{http2: prior-knowledge}}, predicates: [Path=/**], filters: [\
             {{{LIMITER}, replenish-rate: 1, period: 1500ms, burst-capacity: 1}}}}]}}]"
        )
    };
    let results = grpcio(yaml, &["/retried.A/B", "/retried.A/B"]);
    let second = &results["/retried.A/B"][1];
    // The policy alone makes all its attempts within 80 ms.
    assert_eq!((&second["code"], &second["attempts"]), (&"OK".into(), &1.into()), "{results}");
    assert!(second["secs"].as_f64().unwrap() > 1.0, "{second}");
}

#[test]
fn a_grpc_client_does_not_retry_a_spent_quota() {
    let yaml = |uri: &str| {
        format!(
            "routes: [{{id: a, uri: '{uri}', metadata: {{http2: prior-knowledge}}, predicates: [Path=/**], filters: [\
             {{{LIMITER}, algorithm: quota, allowance: 1}}}}]}}]"
        )
    };
    let results = grpcio(yaml, &["/retried.A/B", "/retried.A/B"]);
    let second = &results["/retried.A/B"][1];
    assert_eq!(second["code"], "RESOURCE_EXHAUSTED");
    assert_eq!((&second["metadata"]["grpc-retry-pushback-ms"], &second["retry_delay"]), (&"-1".into(), &Value::Null));
}

#[test]
fn grpc_clients_read_failures_of_the_gateway_as_codes() {
    let yaml = |uri: &str| {
        let (dead, route) = (free_address(), "metadata: {http2: prior-knowledge}");
        format!(
            "routes:\n\
             - {{id: dead, uri: 'http://{dead}', {route}, predicates: [Path=/dead.A/*]}}\n\
             - {{id: blocked, uri: '{uri}', {route}, predicates: [Path=/blocked.A/*], filters: [{{{LIMITER}, replenish-rate: 1, \
               burst-capacity: 1, block: [a]}}}}]}}\n\
             - {{id: busy, uri: '{uri}', {route}, predicates: [Path=/busy.A/*], filters: [{{name: RequestHeaderSize, \
               args: {{maxSize: 1B}}}}]}}\n\
             - {{id: http, uri: '{uri}', {route}, predicates: [Path=/http.A/*], filters: [{{{LIMITER}, algorithm: quota, \
               allowance: 0, error-format: http}}}}]}}\n"
        )
    };
    let results = grpcio(yaml, &["/none.A/B", "/dead.A/B", "/blocked.A/B", "/busy.A/B", "/http.A/B"]);
    let seen = |method: &str| (results[method][0]["code"].clone(), results[method][0]["message"].clone());
    assert_eq!(seen("/none.A/B"), ("UNIMPLEMENTED".into(), "Not Found: no route matches".into()));
    assert_eq!(seen("/dead.A/B"), ("UNAVAILABLE".into(), "Bad Gateway: the upstream is unreachable".into()));
    assert_eq!(seen("/blocked.A/B").0, "PERMISSION_DENIED");
    assert_eq!(seen("/busy.A/B").0, "RESOURCE_EXHAUSTED");
    assert_eq!(results["/busy.A/B"][0]["metadata"]["grpc-retry-pushback-ms"], "-1");
    // grpcio translates HTTP 429 itself, which is why `auto` is the default.
    assert_eq!(seen("/http.A/B").0, "UNAVAILABLE");
}

#[test]
fn clients_of_connect_read_denials_in_each_of_its_protocols() {
    let gateway = Gateway::start(
        "routes: [{id: a, uri: 'no:', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: {key-resolver: route, \
         replenish-rate: 1, period: 100s, burst-capacity: 1, body: {text: 'no more'}}}]}]",
    );
    assert_eq!(gateway.get("/").status, 200);
    let output = Command::new("node")
        .arg(script("clients.mjs"))
        .args([packages().to_str().unwrap(), &gateway.address.to_string()])
        .output()
        .unwrap();
    let errors: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(errors.len(), 10);
    for error in errors {
        assert_eq!((&error["code"], &error["message"]), (&"ResourceExhausted".into(), &"no more".into()), "{error}");
        assert!((90.0..=100.0).contains(&error["delay"].as_f64().unwrap_or_default()), "{error}");
        assert_eq!(error["remaining"], "0", "{error}");
    }
}
