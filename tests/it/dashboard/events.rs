//! The stream of snapshots, without a browser.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ROUTES;
use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};
use crate::support::{PATIENCE, eventually};

/// Stream of events, without its chunks.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(gateway: &Gateway, fields: &str) -> (u16, Self) {
        let mut stream = TcpStream::connect(("127.0.0.1", gateway.admin.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").unwrap();
        let mut events = Self(BufReader::new(stream));
        let status = events.line().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let head: Vec<String> = std::iter::from_fn(|| events.line().filter(|line| !line.is_empty())).collect();
        let is_unbuffered = head.iter().any(|field| field == "x-accel-buffering: no");
        assert_eq!(is_unbuffered, status == 200, "nginx passes events on at once: {head:?}");
        (status, events)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).unwrap();
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// Returns the next event; `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let line = self.line()?;
            // The last chunk.
            if line == "0" {
                return None;
            }
            if let Some(name) = line.strip_prefix("event: ") {
                let data = self.line()?;
                let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {data}"));
                return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
            }
        }
    }

    fn snapshot(&mut self) -> Value {
        loop {
            if let Some((name, data)) = self.next()
                && name == "snapshot"
            {
                return data;
            }
        }
    }
}

#[test]
fn a_snapshot_shows_rates_and_the_most_denied_keys() {
    let gateway = Gateway::start(ROUTES);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let (status, mut events) = Events::open(&gateway, "Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(status, 200);
    assert_eq!(events.next().unwrap().0, "history");
    let first = events.snapshot();
    assert_eq!(
        (&first["status"], &first["redis"], &first["routes"][0]["id"]),
        (&"UP".into(), &Value::Null, &"orders".into())
    );
    let mut client = gateway.connect();
    for _ in 0..12 {
        client.request("GET", "/orders", &[("x-key", "alice")], b"");
    }
    let loaded = std::iter::repeat_with(|| events.snapshot()).find(|snapshot| snapshot["all"]["denied"] != 0).unwrap();
    let route = &loaded["routes"][0];
    assert!(route["requests"].as_f64() > route["denied"].as_f64(), "{route}");
    let top = &loaded["top"]["denied"][0];
    assert_eq!((&top["rule"], &top["keys"][0]["key"]), (&"hourly".into(), &"alice".into()));
    drop(events);
    let (_, mut again) = Events::open(&gateway, "");
    let (_, history) = again.next().unwrap();
    let requests = history["routes"]["orders"]["requests"].as_array().unwrap();
    assert!(requests.iter().any(|rate| rate.as_f64() > Some(0.0)), "a page that is loaded again: {history}");
}

#[test]
fn the_first_viewer_finds_the_history_before_it() {
    let gateway = Gateway::start(ROUTES);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let (mut client, started) = (gateway.connect(), Instant::now());
    // Rates are recorded every second.
    while started.elapsed() < Duration::from_secs(5) {
        client.request("GET", "/orders", &[("x-key", "alice")], b"");
    }
    let (_, history) = Events::open(&gateway, "").1.next().unwrap();
    let requests = history["routes"]["orders"]["requests"].as_array().unwrap();
    assert!(requests.iter().any(|rate| rate.as_f64() > Some(0.0)), "{history}");
}

#[test]
fn hashes_replace_key_ids_in_snapshots() {
    let gateway = Gateway::start(&format!("management: {{hash-keys: true}}\n{ROUTES}"));
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let mut client = gateway.connect();
    for _ in 0..4 {
        client.request("GET", "/orders", &[("x-key", "alice")], b"");
    }
    let (_, mut events) = Events::open(&gateway, "");
    let snapshot = events.snapshot();
    let top = &snapshot["top"];
    assert_eq!((&top["hashed"], &top["denied"][0]["keys"][0]["count"]), (&true.into(), &2.into()));
    assert!(!snapshot.to_string().contains("alice"), "{snapshot}");
}

#[test]
fn viewers_are_bounded_and_a_foreign_page_is_none() {
    let gateway = Gateway::start(ROUTES);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    for foreign in ["Sec-Fetch-Site: cross-site\r\n", "Origin: http://evil.example\r\n"] {
        assert_eq!(Events::open(&gateway, foreign).0, 403);
    }
    let mut viewers: Vec<_> = (0..32).map(|_| Events::open(&gateway, "")).collect();
    assert!(viewers.iter().all(|(status, _)| *status == 200));
    let refused = gateway.admin("/api/events");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")));
    assert_eq!(gateway.admin("/health/live").status, 200);
    let places: Vec<_> = viewers.iter_mut().map(|(_, viewer)| viewer.snapshot()["at"].clone()).collect();
    assert!(places.iter().all(|at| at.is_u64()));
    viewers.pop();
    eventually("the place is free", || Events::open(&gateway, "").0 == 200);
}

#[test]
fn the_stream_ends_when_the_gateway_shuts_down() {
    let ((arrived, arrival), (release, released)) = (channel(), channel::<()>());
    let (arrived, released) = (Mutex::new(arrived), Mutex::new(released));
    let upstream = Upstream::start(move |_| {
        arrived.lock().unwrap().send(()).unwrap();
        let _ = released.lock().unwrap().recv();
        response(200, &[], b"x")
    });
    let mut gateway = Gateway::to(&upstream.uri());
    let (_, mut events) = Events::open(&gateway, "");
    events.snapshot();
    // A request in flight keeps the gateway from exiting before the stream has ended.
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    arrival.recv().unwrap();
    gateway.signal("TERM");
    let rest: Vec<String> = std::iter::from_fn(|| events.next()).map(|(name, _)| name).collect();
    assert_eq!(rest.last().map(String::as_str), Some("end"), "{rest:?}");
    assert_eq!(Events::open(&gateway, "").0, 503);
    release.send(()).unwrap();
    assert_eq!(client.response().map(|answer| answer.status), Some(200));
    gateway.wait();
}

#[test]
fn a_reload_ends_the_stream_of_a_token_that_it_removes() {
    let config = |token: &str| {
        let management = "management: {server: {address: 0.0.0.0}, tokens: [{name: a, role: read, token:";
        format!("{management} {token}}}]}}\n{ROUTES}")
    };
    let gateway = Gateway::start(&config("token-of-16-bytes"));
    let fields = "Authorization: Bearer token-of-16-bytes\r\n";
    let (status, mut events) = Events::open(&gateway, fields);
    assert_eq!((status, Events::open(&gateway, "").0), (200, 401));
    events.snapshot();
    gateway.reload(&config("another-token-of-16"));
    let last = std::iter::from_fn(|| events.next()).last().unwrap();
    assert_eq!((last.0.as_str(), &last.1["reason"]), ("end", &"the configuration was reloaded".into()));
    assert_eq!(Events::open(&gateway, fields).0, 401);
}

#[test]
fn the_page_is_served_with_a_strict_policy() {
    let gateway = Gateway::start(ROUTES);
    let page = gateway.admin("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let script = gateway.admin("/dashboard/app.js");
    assert_eq!((script.status, script.header("x-content-type-options")), (200, Some("nosniff")));
    assert_eq!(gateway.admin("/dashboard/none.js").status, 404);
    let head = Connection::open(gateway.admin).request("HEAD", "/", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
}
