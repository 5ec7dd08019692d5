//! Boundaries between requests: unread bodies, size limits, pipelining.

use std::io::{Read, Write};
use std::time::Duration;

use crate::support::gateway::Gateway;
use crate::support::upstream::{Request, Upstream, response};

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Starts a gateway that admits one request per key and minute.
fn limited(uri: &str) -> Gateway {
    Gateway::filtering(
        uri,
        "[{name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 60, requested-tokens: 60, \
         key-resolver: 'header:x-key'}}]",
    )
}

/// Incomplete request with a key that has spent its token.
fn denied_head(gateway: &Gateway, key: &str) -> String {
    let mut client = gateway.connect();
    while client.request("GET", "/spend", &[("x-key", key)], b"").status != 429 {}
    format!("POST /denied HTTP/1.1\r\nHost: a\r\nx-key: {key}\r\n")
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::start(|request| response(200, &[], request.target().as_bytes()));
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    let requests: String = (0..20)
        .map(|n| match n % 3 {
            0 => format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => format!("POST /{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
            _ => format!("POST /{n} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
        })
        .collect();
    client.send(requests);
    for n in 0..20 {
        assert_eq!(client.response().unwrap().text(), format!("/{n}"));
    }
    let bodies: Vec<_> = upstream.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies[..3], [b"".to_vec(), b"hello".to_vec(), b"hi".to_vec()]);
}

#[test]
fn nothing_is_processed_after_connection_close() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    for close in ["Connection: close", "Connection: foo, Close", "Connection: keep-alive\r\nConnection: close"] {
        let mut client = gateway.connect();
        client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\n{close}\r\n\r\n{SMUGGLED}"));
        let answer = client.response().unwrap();
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{close}");
        assert!(client.is_closed());
    }
    let mut old = gateway.connect();
    old.send(format!("GET /x HTTP/1.0\r\nHost: a\r\n\r\n{SMUGGLED}"));
    assert_eq!(old.response().unwrap().status, 200);
    assert!(old.is_closed(), "HTTP/1.0 closes unless it says otherwise");
    assert_eq!(upstream.targets(), ["/x"; 4]);
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let upstream =
        Upstream::start(|_| b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".into());
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send("GET /x HTTP/1.0\r\n\r\n");
    let raw = String::from_utf8(client.rest()).unwrap();
    assert!(raw.starts_with("HTTP/1."), "{raw:?}");
    assert!(raw.ends_with("\r\n\r\nok") && !raw.to_lowercase().contains("transfer-encoding"), "{raw:?}");
}

#[test]
fn the_body_of_a_get_is_not_read_as_a_request() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    let body = SMUGGLED.as_bytes();
    for method in ["GET", "DELETE", "OPTIONS", "HEAD"] {
        assert_eq!(client.request(method, "/x", &[], body).status, 200, "{method}");
    }
    client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len()));
    client.send([body, b"\r\n0\r\n\r\n"].concat());
    assert_eq!(client.response().unwrap().status, 200);
    let requests = upstream.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.body == body), "{requests:?}");
}

#[test]
fn a_client_that_expects_100_continue_gets_it_and_the_upstream_gets_the_body() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for n in 1..=2 {
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(client.until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n");
        client.send("hello");
        assert_eq!(client.response().unwrap().status, 200);
        let requests = upstream.requests();
        assert_eq!((requests.len(), requests[n - 1].body.as_slice()), (n, b"hello".as_slice()));
        assert_eq!(requests[n - 1].header("expect"), None, "met by the gateway");
    }
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().unwrap().status, 200, "no request waits for it");
}

#[test]
fn a_denied_client_that_expects_100_continue_gets_429_and_its_body_is_not_read_as_a_request() {
    let upstream = Upstream::ok("ok");
    let gateway = limited(&upstream.uri());
    let head = denied_head(&gateway, "expects");
    let before = upstream.requests().len();
    let mut client = gateway.connect();
    client.send(format!("{head}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", SMUGGLED.len()));
    let raw = String::from_utf8(client.until(b"\r\n\r\n")).unwrap();
    assert!(raw.starts_with("HTTP/1.1 429"), "no 100 Continue before it: {raw:?}");
    let _ = client.try_send(SMUGGLED);
    client.finish();
    let rest = String::from_utf8(client.rest()).unwrap();
    assert!(!rest.contains("HTTP/1.1 200"), "{rest:?}");
    assert_eq!(upstream.requests().len(), before);
}

#[test]
fn a_small_unread_body_is_drained_and_the_connection_stays_open() {
    let upstream = Upstream::ok("ok");
    let gateway = limited(&upstream.uri());
    let head = denied_head(&gateway, "small");
    let before = upstream.requests().len();
    let filler = format!("{}{SMUGGLED}", "x".repeat(20_000));
    let with_length = format!("{head}Content-Length: {}\r\n\r\n{filler}", filler.len());
    let with_chunks = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{filler}\r\n0\r\n\r\n", filler.len());
    let mut client = gateway.connect();
    for (request, key) in [(&with_length, "a"), (&with_chunks, "b"), (&with_length, "c")] {
        client.send(request);
        assert_eq!(client.response().unwrap().status, 429);
        assert_eq!(client.request("GET", "/next", &[("x-key", key)], b"").status, 200);
    }
    assert_eq!(upstream.targets().split_off(before), ["/next"; 3]);
}

#[test]
fn a_small_late_body_is_not_read_as_a_request() {
    let upstream = Upstream::ok("ok");
    let gateway = limited(&upstream.uri());
    let head = denied_head(&gateway, "late");
    let before = upstream.requests().len();
    let mut client = gateway.connect();
    client.send(format!("{head}Content-Length: {}\r\n\r\n", SMUGGLED.len()));
    assert_eq!(client.response().unwrap().status, 429);
    // The response came first; these are the announced bytes of its request.
    let _ = client.try_send(SMUGGLED);
    let next = client.try_request("GET", "/next", &[("x-key", "fresh")], b"");
    assert!(next.is_none_or(|answer| answer.status == 200));
    let seen = upstream.targets().split_off(before);
    assert!(seen.iter().all(|target| target == "/next"), "{seen:?}");
}

/// Longer than an idle connection keeps its state.
const LATER: Duration = Duration::from_millis(300);

/// Bytes that a request announced are its body, even if they come late. A connection that was answered early is not
/// idle, and must not read them as a request.
#[test]
fn a_body_long_after_its_response_is_not_read_as_a_request() {
    let early = Upstream::scripted(|stream, seen| {
        let mut head = [0; 4096];
        let read = stream.read(&mut head).unwrap_or(0);
        let line = String::from_utf8_lossy(&head[..read]).lines().next().unwrap_or_default().to_owned();
        seen(Request { line, headers: Vec::new(), body: Vec::new() });
        let _ = stream.write_all(&response(200, &[("Connection", "close")], b"early"));
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let gateway = Gateway::start(&format!(
        "routes:\n- {{id: none, uri: 'no://op', predicates: [Path=/none/**]}}\n\
         - {{id: early, uri: '{}', predicates: [Path=/early/**]}}\n\
         - {{id: limited, uri: 'echo:', predicates: [Path=/limited/**], filters: [{{name: RequestRateLimiter, \
         args: {{replenish-rate: 1, burst-capacity: 0, key-resolver: ip}}}}]}}\n",
        early.uri()
    ));
    let chunked = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    for (path, status) in [("/none/a", 200), ("/early/a", 200), ("/limited/a", 429)] {
        for (framing, body) in [
            (format!("Content-Length: {}", SMUGGLED.len()), SMUGGLED),
            ("Transfer-Encoding: chunked".to_owned(), chunked.as_str()),
        ] {
            let mut client = gateway.connect();
            client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
            assert_eq!(client.response().unwrap().status, status, "{path} {framing}");
            std::thread::sleep(LATER);
            let _ = client.try_send(body);
            client.finish();
            let rest = String::from_utf8(client.rest()).unwrap();
            assert!(!rest.contains("HTTP/1.1"), "{path} {framing}: {rest}");
        }
    }
    assert!(early.requests().iter().all(|request| request.target() == "/early/a"));
}

#[test]
fn a_large_unread_body_closes_the_connection_after_the_429() {
    let upstream = Upstream::ok("ok");
    let gateway = limited(&upstream.uri());
    let head = denied_head(&gateway, "huge");
    let before = upstream.requests().len();
    let mut client = gateway.connect();
    client.send(format!("{head}Content-Length: 1000000000\r\n\r\n"));
    let answer = client.response().unwrap();
    assert_eq!(answer.status, 429);
    // The client keeps sending until the gateway closes.
    let filler = SMUGGLED.repeat(2000);
    let mut sent = 0_usize;
    while client.try_send(&filler).is_ok() {
        sent += filler.len();
        assert!(sent < 500_000_000, "the gateway reads all of it");
    }
    assert_eq!(upstream.requests().len(), before);
}

#[test]
fn a_body_over_the_size_limit_gets_413_with_length_or_chunks() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::filtering(&upstream.uri(), "['RequestSize=1000B']");
    let mut client = gateway.connect();
    assert_eq!(client.request("POST", "/x", &[], &[b'x'; 1000]).status, 200);
    let answer = client.request("POST", "/x", &[], &[b'x'; 1001]);
    assert_eq!(answer.status, 413);
    assert!(answer.header("errorMessage").unwrap().contains("1.0 kB"), "{answer:?}");
    let mut client = gateway.connect();
    let chunk = format!("100\r\n{}\r\n", "x".repeat(256));
    client.send(format!("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunk.repeat(3)));
    client.send(format!("{chunk}0\r\n\r\n{SMUGGLED}"));
    assert_eq!(client.response().unwrap().status, 413);
    assert!(client.is_closed());
    assert_eq!(upstream.requests().len(), 1, "the upstream saw no complete request but the first");
    let mut client = gateway.connect();
    client
        .send(format!("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk.repeat(3)));
    assert_eq!(client.response().unwrap().status, 200);
    assert_eq!(upstream.requests()[1].body.len(), 768);
}

#[test]
fn the_server_body_limit_applies_to_every_route() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, max-body-size: 10B}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    assert_eq!(gateway.connect().request("POST", "/x", &[], b"0123456789").status, 200);
    assert_eq!(gateway.connect().request("POST", "/x", &[], b"0123456789+").status, 413);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn the_echo_upstream_reads_bodies() {
    let gateway = Gateway::start(
        "server: {address: 127.0.0.1, workers: 1, max-body-size: 2MB, body-timeout: 300ms}\n\
         routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]",
    );
    let chunked = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = gateway.connect();
    assert!(client.request("GET", "/x", &[], b"").text().contains("\"bodyBytes\": 0"));
    assert!(client.request("POST", "/x", &[], &[b'x'; 1_500_000]).text().contains("\"bodyBytes\": 1500000"));
    // The response follows the last chunk; more than an unread body that the gateway would discard.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
    client.send(format!("{chunked}{}0\r\n\r\n", chunk.repeat(16)));
    assert!(client.response().unwrap().text().contains("\"bodyBytes\": 1048576"));
    assert_eq!(client.request("GET", "/x", &[], b"").status, 200, "the connection is reused");
    let failing = [("fffff\r\n".to_owned(), 408), ("zz\r\n".to_owned(), 400), (chunk.repeat(33), 413)];
    for (body, status) in failing {
        let mut client = gateway.connect();
        client.send(format!("{chunked}{body}"));
        assert_eq!(client.response().unwrap().status, status, "{body:.20}");
        assert!(client.is_closed());
    }
}
