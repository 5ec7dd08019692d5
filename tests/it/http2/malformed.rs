//! Malformed HTTP/2 requests.

use super::raw::{DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, OK, ORDINARY, RST_STREAM, Raw, block};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

#[test]
fn malformed_requests_are_refused_and_not_forwarded() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let with = |extra: &[(&'static str, &'static str)]| [&ORDINARY[..], extra].concat();
    let cases = [
        with(&[("X-Upper", "y")]),
        with(&[("x y", "z")]),
        with(&[("x:y", "z")]),
        with(&[("", "z")]),
        with(&[("x", "a\r\nHost: b")]),
        with(&[("x", "a\nb")]),
        with(&[("x", "a\0b")]),
        with(&[("connection", "close")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("keep-alive", "1")]),
        with(&[("upgrade", "websocket")]),
        with(&[("te", "gzip")]),
        with(&[("content-length", "5")]),
        with(&[("content-length", "x")]),
        with(&[("host", "b")]),
        with(&[(":path", "/y")]),
        with(&[(":unknown", "y")]),
        with(&[(":protocol", "websocket")]),
        with(&[("x", "y"), (":authority", "b")]),
        vec![("x", "y"), (":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/x")],
        vec![(":scheme", "http"), (":authority", "a"), (":path", "/x")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "x")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a b")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a HTTP/1.1\r\nX: y")],
        vec![(":method", "GE T"), (":scheme", "http"), (":authority", "a"), (":path", "/x")],
        vec![(":method", "GET /y HTTP/1.1\r\n"), (":scheme", "http"), (":authority", "a"), (":path", "/x")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a@b"), (":path", "/x")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "[api.example.org]"), (":path", "/x")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/x"), ("host", "[api.example.org]")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/x")],
    ];
    for fields in cases {
        let mut client = Raw::open(&gateway);
        client.headers(1, END_STREAM, &fields);
        let (kind, first) = client.outcome();
        assert!(kind != HEADERS || first != OK, "{fields:?}: {kind} {first:x}");
        assert_eq!(upstream.requests().len(), 0, "{fields:?}");
    }
    for (method, path) in [("CONNECT", "/x"), ("TRACE", "/x")] {
        let mut client = Raw::open(&gateway);
        client.headers(
            1,
            END_STREAM,
            &[(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)],
        );
        let (kind, first) = client.outcome();
        assert!(kind != HEADERS || first != OK, "{method}: {first:x}");
    }
    assert_eq!(upstream.requests().len(), 0);
    let mut client = Raw::open(&gateway);
    client.headers(1, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
}

#[test]
fn a_body_that_contradicts_its_length_is_not_completed_upstream() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    for (length, data) in [("3", "hello"), ("9", "hello"), ("0", "hello")] {
        let mut client = Raw::open(&gateway);
        client.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..], &[("content-length", length)]].concat());
        client.frame(0, END_STREAM, 1, data.as_bytes());
        let (kind, first) = client.outcome();
        assert!(kind != HEADERS || first != OK, "{length}: {first:x}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

/// Sends a request with a head of about `length` bytes on stream 1.
fn send_large_head(client: &mut Raw, length: usize) {
    let large = "y".repeat(100);
    let fields: Vec<_> = (0..length / 100).map(|_| ("x", large.as_str())).collect();
    send_fields(client, &[&ORDINARY[..], &fields].concat());
}

/// Sends `fields` as the end of stream 1, in as many frames as they need.
fn send_fields(client: &mut Raw, fields: &[(&str, &str)]) {
    let block = block(fields);
    let mut pieces = block.chunks(16_000);
    let first = pieces.next().unwrap();
    let count = pieces.len();
    client.frame(HEADERS, END_STREAM | if count == 0 { END_HEADERS } else { 0 }, 1, first);
    for (n, piece) in pieces.enumerate() {
        client.frame(9, if n + 1 == count { END_HEADERS } else { 0 }, 1, piece);
    }
}

#[test]
fn trailers_above_the_limit_complete_no_request_upstream() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let large = "y".repeat(100);
    for (count, is_within) in [(100, true), (1000, false), (3000, false)] {
        let before = upstream.requests().len();
        let mut client = Raw::open(&gateway);
        client.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..]].concat());
        client.frame(DATA, 0, 1, b"hello");
        send_fields(&mut client, &vec![("x", large.as_str()); count]);
        assert_eq!(client.outcome() == (HEADERS, OK), is_within, "{count} fields");
        assert_eq!(upstream.requests().len() > before, is_within, "{count} fields");
    }
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = Raw::open(&gateway);
    send_large_head(&mut client, 200_000);
    let (kind, first) = client.outcome();
    assert!(kind != HEADERS || first != OK, "{first:x}");
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_head_that_is_too_large_is_logged_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let gateway = Gateway::start(&format!(
        "access-log: {{output: '{}', format: json}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n",
        path.display()
    ));
    let mut client = Raw::open(&gateway);
    send_large_head(&mut client, 100_000);
    assert_eq!(client.until(&[HEADERS, RST_STREAM, GOAWAY]).0, HEADERS);
    // The connection goes on, and its next request has a line of its own.
    client.headers(3, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
    let labels = ["method=\"OTHER\"", "\"431\""];
    eventually("it is counted", || gateway.metric("tollgate_unrouted_requests_total", &labels) == 1.0);
    eventually("both are logged", || std::fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 2));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let refused = lines.find(|line| line["status"] == 431).unwrap();
    assert_eq!(
        (&refused["reason"], &refused["protocol"]),
        (&"unreadable-head".into(), &"HTTP/2.0".into()),
        "{refused}"
    );
    assert_eq!(refused["target"], "-", "{refused}");
    assert!(text.contains("\"/x\""), "{text}");
}
