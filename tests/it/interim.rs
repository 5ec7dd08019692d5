//! Interim responses (1xx) of HTTP/1.1 upstreams to HTTP/1 clients, byte for byte.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};

const HINT: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
const GET: &str = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

/// Starts an upstream that writes `interim` before each response; if `waits`, in a write of its own, and the response
/// when the returned sender has sent.
fn upstream(interim: &'static str, waits: bool) -> (Upstream, std::sync::mpsc::Sender<()>) {
    let (go_on, gate) = channel();
    let gate = Mutex::new(gate);
    let upstream = Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            seen(request);
            let last = response(200, &[], b"ok");
            if waits {
                stream.write_all(interim.as_bytes()).unwrap();
                gate.lock().unwrap().recv().unwrap();
                stream.write_all(&last).unwrap();
            } else {
                stream.write_all(&[interim.as_bytes(), &last].concat()).unwrap();
            }
        }
    });
    (upstream, go_on)
}

#[test]
fn a_hint_reaches_the_client_before_the_response_exists() {
    let sent = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
                Content-Length: 9\r\nKeep-Alive: timeout=5\r\n\r\n";
    let (upstream, go_on) = upstream(sent, true);
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for _ in 0..3 {
        client.send(GET);
        assert_eq!(String::from_utf8(client.until(b"\r\n\r\n")).unwrap(), HINT);
        go_on.send(()).unwrap();
        let answer = client.response().unwrap();
        assert_eq!((answer.status, answer.text().as_str(), answer.header("link")), (200, "ok", None));
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn hints_that_arrive_with_the_response_precede_it_also_in_pipelines() {
    let (upstream, _) =
        upstream("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", false);
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send(GET.repeat(5));
    for _ in 0..5 {
        assert_eq!(String::from_utf8(client.until(b"\r\n\r\n")).unwrap(), HINT);
        let answer = client.response().unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
    }
}

#[test]
fn an_http_1_0_client_gets_the_final_response_only() {
    let (upstream, _) = upstream(HINT, false);
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send("GET /x HTTP/1.0\r\nHost: a\r\n\r\n");
    let raw = String::from_utf8(client.rest()).unwrap();
    assert!(raw.starts_with("HTTP/1.0 200") && raw.ends_with("\r\n\r\nok") && !raw.contains("103"), "{raw:?}");
}

#[test]
fn a_hint_never_splits_an_earlier_response_that_the_client_has_not_read() {
    const LENGTH: usize = 8 * 1024 * 1024;
    let (hinted, hints) = channel();
    let upstream = Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            let is_large = request.target() == "/large";
            seen(request);
            if is_large {
                stream.write_all(&response(200, &[], &vec![b'l'; LENGTH])).unwrap();
            } else {
                stream.write_all(HINT.as_bytes()).unwrap();
                hinted.send(()).unwrap();
                stream.write_all(&response(200, &[], b"ok")).unwrap();
            }
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    for _ in 0..3 {
        let mut client = gateway.connect();
        client.send(format!("GET /large HTTP/1.1\r\nHost: a\r\n\r\n{GET}{GET}"));
        let large = client.response().unwrap();
        assert!(large.body.len() == LENGTH && large.body.iter().all(|byte| *byte == b'l'));
        for _ in 0..2 {
            hints.recv().unwrap();
            assert_eq!(String::from_utf8(client.until(b"\r\n\r\n")).unwrap(), HINT);
            assert_eq!(client.response().unwrap().text(), "ok");
        }
    }
}

#[test]
fn hints_and_100_continue_are_separate_heads() {
    let upstream = Upstream::scripted(|stream, seen| {
        while let Some(request) = read_request(stream) {
            seen(request);
            stream.write_all(&[HINT.as_bytes(), &response(200, &[], b"ok")].concat()).unwrap();
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for _ in 0..3 {
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(client.until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n");
        client.send("body");
        assert_eq!(String::from_utf8(client.until(b"\r\n\r\n")).unwrap(), HINT);
        assert_eq!(client.response().unwrap().text(), "ok");
    }
    assert_eq!(upstream.requests()[2].body, b"body");
}

#[test]
fn a_flood_of_hints_is_bounded_and_well_formed() {
    let upstream = Upstream::start(|_| [HINT.repeat(1000).as_bytes(), &response(200, &[], b"ok")].concat());
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for _ in 0..2 {
        client.send(GET);
        let mut hints = 0;
        let mut head = client.until(b"\r\n\r\n");
        while head == HINT.as_bytes() {
            hints += 1;
            head = client.until(b"\r\n\r\n");
        }
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
        assert_eq!(client.take(2), b"ok");
        assert!((1..=1000).contains(&hints), "{hints}");
    }
}
