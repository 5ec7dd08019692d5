//! Refusals of requests whose body is still on its way. The client reads the response when it has sent everything, as
//! Python's `http.client` does.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use tollgate_test_support::Certificates;

use crate::http2::raw::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, OK, ORDINARY, PING, RST_STREAM, Raw, SETTINGS, block, frame,
};
use crate::support::gateway::Gateway;
use crate::support::raw_http2::{NO_ERROR, RawHttp2};
use crate::support::upstream::{Upstream, response};
use crate::tls::{open, open_with, yaml};

const PART: usize = 64 * 1024;
/// More than the gateway discards to keep a connection open.
const PARTS: usize = 16;

/// Starts an upstream that refuses each request after its head, and then does `rest`.
fn refusing(status: u16, rest: fn(&mut TcpStream)) -> Upstream {
    Upstream::scripted(move |stream, _| {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
            head.push(byte[0]);
        }
        let _ = stream.write_all(&response(status, &[("Connection", "close")], b"refused"));
        rest(stream);
    })
}

/// Reads on, as RFC 9112 §9.6 recommends.
fn read_on(stream: &mut TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let _ = std::io::copy(stream, &mut std::io::sink());
}

/// Starts a gateway whose routes refuse uploads, with TLS if there are `certificates`.
fn gateway(upstream: &Upstream, certificates: Option<&Certificates>) -> Gateway {
    let keys = tempfile::NamedTempFile::new().unwrap();
    let secret = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U";
    std::fs::write(keys.path(), format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{secret}\"}}]}}")).unwrap();
    let routes = format!(
        "jwt: {{jwks: {}, algorithms: [HS256], audience: a}}\nroutes:\n\
         - {{id: limited, uri: 'echo:', predicates: [Path=/limited], filters: [{{name: RequestRateLimiter, \
         args: {{replenish-rate: 1, burst-capacity: 0, key-resolver: ip}}}}]}}\n\
         - {{id: small, uri: 'echo:', predicates: [Path=/small], filters: ['RequestSize=1000B']}}\n\
         - {{id: token, uri: 'echo:', predicates: [Path=/token], filters: [RequireToken]}}\n\
         - {{id: upstream, uri: '{}', predicates: [Path=/upstream]}}\n\
         - {{id: first, uri: 'echo:', predicates: [Path=/first]}}\n",
        keys.path().display(),
        upstream.uri()
    );
    Gateway::start(&match certificates {
        Some(certificates) => yaml(certificates, "", &routes),
        None => routes,
    })
}

/// Sends a request of 1 MB, with a pause after each part, and returns the response.
fn upload(stream: &mut (impl Read + Write), case: &str, head: &str, is_chunked: bool) -> String {
    let framing = match is_chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {}", PARTS * PART),
    };
    stream.write_all(format!("{head}Host: localhost\r\n{framing}\r\n\r\n").as_bytes()).unwrap();
    for part in 0..PARTS {
        let body = vec![b'x'; PART];
        let body = if is_chunked { [b"10000\r\n", &body[..], b"\r\n"].concat() } else { body };
        stream.write_all(&body).unwrap_or_else(|error| panic!("{case}: {error} in part {part}"));
        std::thread::sleep(Duration::from_millis(4));
    }
    let _ = stream.write_all(if is_chunked { b"0\r\n\r\n" } else { b"" });
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes).unwrap_or_else(|error| panic!("{case}: {error}"));
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

const REFUSALS: [(&str, &str); 11] = [
    ("POST /limited HTTP/1.1\r\n", "429"),
    ("POST /small HTTP/1.1\r\n", "413"),
    ("POST /upstream HTTP/1.1\r\n", "401"),
    ("POST /token HTTP/1.1\r\n", "401"),
    ("POST /none HTTP/1.1\r\n", "404"),
    ("POST /limited HTTP/1.1\r\nno field\r\n", "400"),
    ("POST /limited HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n", "429"),
    ("POST /small HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", "413"),
    ("POST /upstream HTTP/1.1\r\nUpgrade: h2c\r\n", "401"),
    ("POST /limited HTTP/1.1\r\nUpgrade: h2c\r\nno field\r\n", "400"),
    ("CONNECT localhost:80 HTTP/1.1\r\n", "405"),
];

#[test]
fn a_refusal_reaches_a_client_that_sends_everything_before_it_reads() {
    let upstream = refusing(401, read_on);
    let gateway = gateway(&upstream, None);
    for (head, status) in REFUSALS {
        for is_chunked in [false, true] {
            let mut client = gateway.connect().stream().try_clone().unwrap();
            let response = upload(&mut client, head, head, is_chunked);
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{head} {is_chunked}: {response}");
        }
    }
}

#[test]
fn a_refusal_over_tls_reaches_a_client_that_sends_everything_before_it_reads() {
    let upstream = refusing(401, read_on);
    let certificates = Certificates::new();
    let gateway = gateway(&upstream, Some(&certificates));
    for (head, status) in REFUSALS {
        for is_chunked in [false, true] {
            let response = upload(&mut open(gateway.address, &certificates), head, head, is_chunked);
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{head} {is_chunked}: {response}");
        }
    }
}

/// Java's `HttpClient` sends `Upgrade: h2c` with its first request.
#[test]
fn a_refusal_behind_an_ignored_upgrade_reaches_a_client_that_sends_everything_before_it_reads() {
    let upstream = refusing(401, read_on);
    let gateway = gateway(&upstream, None);
    for (head, status) in REFUSALS {
        let mut client = gateway.connect();
        let fields = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")];
        assert_eq!(client.request("GET", "/first", &fields, b"").status, 200);
        let response = upload(&mut client.stream().try_clone().unwrap(), head, head, false);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {response}");
    }
}

#[test]
fn a_refusal_announces_the_end_of_a_connection_whose_body_is_not_read() {
    let upstream = refusing(401, read_on);
    let gateway = gateway(&upstream, None);
    for (framing, close) in [
        ("Content-Length: 100000\r\n", None),
        ("Content-Length: 1000000\r\n", Some("close")),
        ("Content-Length: 5\r\nExpect: 100-continue\r\n", Some("close")),
    ] {
        let mut client = gateway.connect();
        client.send(format!("POST /limited HTTP/1.1\r\nHost: a\r\n{framing}\r\n"));
        let response = client.response().unwrap();
        assert_eq!((response.status, response.header("connection")), (429, close), "{framing}");
    }
}

#[test]
fn a_refusal_over_http2_and_tls_reaches_a_client_that_sends_everything_before_it_reads() {
    let upstream = refusing(401, read_on);
    let certificates = Certificates::new();
    let gateway = gateway(&upstream, Some(&certificates));
    let mut client = open_with(gateway.address, &certificates, &["h2"]);
    let mut send = |bytes: &[u8]| client.write_all(bytes).unwrap();
    send(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat());
    let paths = ["/limited", "/small", "/upstream", "/token", "/none"];
    for (stream, path) in (1..).step_by(2).zip(paths) {
        let fields =
            [&[(":method", "POST"), (":path", path)], &ORDINARY[1..3], &[("content-length", "60000")]].concat();
        send(&frame(HEADERS, END_HEADERS, stream, &block(&fields)));
        for part in 0..4 {
            send(&frame(DATA, if part == 3 { END_STREAM } else { 0 }, stream, &[b'x'; 15_000]));
            std::thread::sleep(Duration::from_millis(4));
        }
    }
    let mut refused = Vec::new();
    while refused.len() < paths.len() {
        let mut head = [0; 9];
        client.read_exact(&mut head).unwrap();
        let [a, b, c, kind, _, d, e, f, g] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        client.read_exact(&mut payload).unwrap();
        assert!(![RST_STREAM, GOAWAY].contains(&kind), "{kind} {payload:?} after {refused:?}");
        if kind == HEADERS {
            assert_ne!(payload[0], OK);
            refused.push(u32::from_be_bytes([d, e, f, g]));
        }
    }
    refused.sort_unstable();
    assert_eq!(refused, [1, 3, 5, 7, 9]);
}

/// An upstream that closes its connection with unread bytes makes the gateway's next write fail.
#[test]
fn an_early_response_counts_although_the_next_write_of_the_body_fails() {
    let upstream = refusing(401, |_| {});
    let gateway = Gateway::filtering(&upstream.uri(), "[{name: CircuitBreaker, args: {name: cb}}]");
    let statuses: Vec<u16> = (0..40)
        .map(|_| {
            let mut client = gateway.connect();
            client.send(format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", PARTS * PART));
            let _ = client.try_send(vec![b'x'; PARTS * PART]);
            client.response().map_or(0, |response| response.status)
        })
        .collect();
    assert_eq!(statuses, [401; 40], "{}", gateway.log());
    assert_eq!(upstream.connections(), 40, "no request was sent again");
}

#[test]
fn an_early_413_is_no_failure_of_the_endpoint() {
    let upstream = refusing(413, |_| {});
    let gateway = Gateway::start(&format!(
        "upstreams: {{u: {{endpoints: ['{}'], ejection: {{consecutive-failures: 1, max-percent: 100}}}}}}\n\
         resilience4j: {{circuitbreaker: {{instances: {{cb: {{sliding-window-size: 10, minimum-number-of-calls: 1, \
         failure-rate-threshold: 1}}}}}}}}\n\
         routes: [{{id: a, uri: 'lb://u', predicates: [Path=/**], filters: [{{name: CircuitBreaker, args: {{name: cb}}}}, \
         {{name: Retry, args: {{retries: 3, methods: POST, statuses: BAD_GATEWAY, maxBodySize: 2000000}}}}]}}]",
        upstream.uri()
    ));
    for turn in 0..40 {
        let mut client = gateway.connect();
        client.send(format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", PARTS * PART));
        let _ = client.try_send(vec![b'x'; PARTS * PART]);
        assert_eq!(client.response().map(|response| response.status), Some(413), "{turn}: {}", gateway.log());
    }
    assert_eq!(upstream.connections(), 40, "no upload was repeated");
    let [breakers, upstreams] = ["/api/breakers", "/api/upstreams"].map(|path| gateway.admin(path).json());
    assert_eq!(breakers[0]["state"], "closed", "{breakers}");
    assert_eq!(upstreams[0]["endpoints"][0]["state"], "up", "{upstreams}");
    assert_eq!(gateway.metric("tollgate_circuit_breaker_calls_total", &["kind=\"failed\""]), 0.0);
    assert_eq!(gateway.metric("tollgate_upstream_ejections_total", &[]), 0.0);
}

#[test]
fn an_early_response_of_an_http2_upstream_counts_although_its_connection_closes() {
    let upstream = RawHttp2::upstream(|connection| {
        if let Some((stream, _)) = connection.request() {
            connection.respond(stream, b"early").go_away(stream, NO_ERROR).flush();
        }
    });
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', http2: prior-knowledge, predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    for turn in 0..20 {
        let mut client = gateway.connect();
        client.send(format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", PARTS * PART));
        let _ = client.try_send(vec![b'x'; PARTS * PART]);
        let response = client.response().map(|response| (response.status, response.text(), response.complete));
        assert_eq!(response, Some((200, "early".to_owned(), true)), "{turn}: {}", gateway.log());
    }
}

#[test]
fn a_refused_stream_stays_open_until_its_window_has_been_used() {
    let upstream = refusing(401, read_on);
    let gateway = gateway(&upstream, None);
    let mut client = Raw::open(&gateway);
    // The last one is refused before a route is sought.
    for (stream, method, path) in [(1, "POST", "/limited"), (3, "POST", "/none"), (5, "post", "/limited")] {
        let length = ("content-length", "60000");
        client.headers(stream, 0, &[&[(":method", method), (":path", path)], &ORDINARY[1..3], &[length]].concat());
        assert_eq!(client.until(&[HEADERS, RST_STREAM, GOAWAY]).0, HEADERS, "{method} {path}");
        for part in 0..4 {
            client.frame(DATA, if part == 3 { END_STREAM } else { 0 }, stream, &[b'x'; 15_000]);
        }
        client.frame(PING, 0, 0, &[0; 8]);
        assert_eq!(client.until(&[PING, RST_STREAM, GOAWAY]).0, PING, "{method} {path}");
    }
    // A long body ends by a reset without an error, also if its length is known before.
    for (stream, method, length) in [(7, "POST", None), (9, "POST", Some("1000000")), (11, "post", Some("1000000"))] {
        let length: Vec<_> = length.map(|length| ("content-length", length)).into_iter().collect();
        let head = [&[(":method", method), (":path", "/limited")], &ORDINARY[1..3], &length[..]].concat();
        client.headers(stream, 0, &head);
        assert_eq!(client.until(&[HEADERS, RST_STREAM, GOAWAY]).0, HEADERS, "{method} {length:?}");
        let mut sent = 0;
        let reset = loop {
            client.frame(DATA, 0, stream, &[b'x'; 15_000]);
            sent += 15_000;
            client.frame(PING, 0, 0, &[0; 8]);
            match client.until(&[PING, RST_STREAM, GOAWAY]) {
                (PING, _) if sent < 1_000_000 => {}
                frame => break frame,
            }
        };
        assert_eq!(reset, (RST_STREAM, vec![0; 4]), "{method} {length:?} {sent}");
        assert!(sent > 256 * 1024, "{method} {length:?}: {sent}");
    }
}
