//! Interim responses (1xx) of HTTP/2 upstreams.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use crate::support::gateway::Gateway;
use crate::support::raw_http2::{END_HEADERS, HEADERS, REFUSED_STREAM, RawHttp2, fields};
use crate::support::upstream::Upstream;

const HINT: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
const LINK: (&str, &str) = ("link", "</a.css>; rel=preload");

fn gateway(upstream: &Upstream) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', http2: prior-knowledge, predicates: [Path=/**]}}]",
        upstream.uri()
    ))
}

fn interim(connection: &mut RawHttp2<'_>, stream: u32, head: &[(&str, &str)]) {
    connection.frame(HEADERS, END_HEADERS, stream, &fields(head));
}

/// Starts an upstream that sends a hint, and the response when the returned sender has sent.
fn hinting() -> (Upstream, Sender<()>) {
    let (go_on, gate) = channel();
    let gate = Mutex::new(gate);
    let upstream = RawHttp2::upstream(move |connection| {
        while let Some((stream, _)) = connection.request() {
            interim(connection, stream, &[(":status", "103"), LINK]);
            connection.flush();
            gate.lock().unwrap().recv().unwrap();
            connection.respond(stream, b"ok").flush();
        }
    });
    (upstream, go_on)
}

#[test]
fn a_hint_over_http2_reaches_an_http1_client_before_the_response_exists() {
    let (upstream, go_on) = hinting();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    for _ in 0..3 {
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(String::from_utf8(client.until(b"\r\n\r\n")).unwrap(), HINT);
        go_on.send(()).unwrap();
        let answer = client.response().unwrap();
        assert_eq!((answer.status, answer.text().as_str(), answer.header("link")), (200, "ok", None));
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn every_interim_response_but_100_reaches_the_client_and_an_http_1_0_client_gets_none() {
    let upstream = RawHttp2::upstream(|connection| {
        while let Some((stream, _)) = connection.request() {
            for status in ["100", "102", "103"] {
                interim(connection, stream, &[(":status", status), LINK]);
            }
            connection.respond(stream, b"ok").flush();
        }
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    for _ in 0..3 {
        assert_eq!(client.until(b"\r\n\r\n"), HINT.replace("103 Early Hints", "102 Processing").as_bytes());
        assert_eq!(client.until(b"\r\n\r\n"), HINT.as_bytes());
        assert_eq!(client.response().unwrap().text(), "ok");
    }
    let mut old = gateway.connect();
    old.send("GET /x HTTP/1.0\r\nHost: a\r\n\r\n");
    let raw = String::from_utf8(old.rest()).unwrap();
    assert!(raw.starts_with("HTTP/1.0 200") && raw.ends_with("\r\n\r\nok") && !raw.contains("link:"), "{raw:?}");
}

#[test]
fn a_hint_of_a_refused_attempt_precedes_the_response_of_the_next_one() {
    let upstream = RawHttp2::upstream(|connection| {
        while let Some((stream, _)) = connection.request() {
            interim(connection, stream, &[(":status", "103"), LINK]);
            if stream == 1 {
                connection.reset(stream, REFUSED_STREAM).flush();
            } else {
                connection.respond(stream, b"ok").flush();
            }
        }
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut heads = Vec::new();
    while heads.last().is_none_or(|head: &Vec<u8>| head == HINT.as_bytes()) {
        heads.push(client.until(b"\r\n\r\n"));
    }
    assert!((2..=3).contains(&heads.len()) && heads.last().unwrap().starts_with(b"HTTP/1.1 200 "), "{heads:?}");
    assert_eq!(client.take(2), b"ok");
}
