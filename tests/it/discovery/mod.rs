//! `lb://NAME` with endpoints from a registry.

mod consul;
mod eureka;
mod https;
mod kubernetes;
mod locator;
mod nacos;
mod outage;
mod registration;
mod rnacos;
mod second_clients;
mod simple;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_test_support::registry::Fault;

use crate::support::eventually;
use crate::support::gateway::{Gateway, run};
use crate::support::upstream::{Upstream, read_request, response};

/// Starts an upstream that answers with its name.
fn named(name: &'static str) -> Upstream {
    Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            seen(request);
            if stream.write_all(&response(200, &[], name.as_bytes())).is_err() {
                return;
            }
        }
    })
}

/// Starts a gateway with a route `/NAME/**` to each of `services`, as an `application.yml`.
fn gateway(registry: &str, services: &[&str]) -> Gateway {
    Gateway::start(&yaml(registry, services))
}

fn yaml(registry: &str, services: &[&str]) -> String {
    let routes = services.iter().map(|name| format!("    - {name}=lb://{name},Path=/{name}/**\n"));
    format!("{registry}\nspring.cloud.gateway.routes:\n{}", routes.collect::<String>())
}

/// Sends `count` requests; returns the number of responses by body, or by status for others than 200.
fn shares(gateway: &Gateway, path: &str, count: usize) -> BTreeMap<String, usize> {
    let mut client = gateway.connect();
    let mut shares = BTreeMap::new();
    for _ in 0..count {
        let answer = client.request("GET", path, &[], b"");
        let key = if answer.status == 200 { answer.text() } else { answer.status.to_string() };
        *shares.entry(key).or_default() += 1;
    }
    shares
}

/// Waits until requests for `path` are answered in these shares.
fn becomes(gateway: &Gateway, path: &str, wanted: &[(&str, usize)]) {
    let wanted: BTreeMap<_, _> = wanted.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    let count = wanted.values().sum();
    eventually(&format!("{path} is answered by {wanted:?}"), || shares(gateway, path, count) == wanted);
}

/// Returns the entry of `/api/upstreams` for `name`.
fn described(gateway: &Gateway, name: &str) -> Value {
    let all = gateway.admin("/api/upstreams").json();
    all.as_array().unwrap().iter().find(|upstream| upstream["name"] == name).cloned().unwrap_or_default()
}

/// Answers that no registry should give, as bodies.
fn hostile_bodies() -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = ["", "<html>", "null", "{}", "[1, \"a\", null]", "{\"applications\": 7}", "\u{0}"]
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect();
    bodies.push("[".repeat(100_000).into_bytes());
    bodies.push(vec![b' '; 17 << 20]);
    bodies
}

/// Answers that break HTTP, as bytes.
fn hostile_responses() -> Vec<Vec<u8>> {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[".to_vec();
    let head = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 200_000]].concat();
    let error = b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n[]".to_vec();
    let away = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n".to_vec();
    vec![half, head, error, away, b"garbage\r\n\r\n".to_vec(), Vec::new()]
}

/// Runs `step` for each fault. The endpoints stay in use during all of them.
fn survives(gateway: &Gateway, path: &str, name: &str, failed: impl Fn() -> f64, fault: impl Fn(Option<Fault>)) {
    let bodies = hostile_bodies().into_iter().map(Fault::Body);
    for wanted in bodies.chain(hostile_responses().into_iter().map(Fault::Raw)) {
        let before = failed();
        let shown = format!("{wanted:?}");
        fault(Some(wanted));
        eventually(&format!("a request fails by {}", &shown[..shown.len().min(100)]), || failed() > before);
        assert_eq!(gateway.get(path).text(), name, "the last list is kept");
        fault(None);
        eventually("the registry answers again", || gateway.metric("tollgate_registry_up{", &[]) == 1.0);
    }
}
