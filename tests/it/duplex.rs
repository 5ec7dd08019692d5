//! Exchanges in which request and response flow at the same time, and their timeouts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_test_support::Certificates;

use crate::http2::raw::{END_HEADERS, GOAWAY, ORDINARY, Raw, SETTINGS, block, frame};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::raw_http2::{DATA, END_STREAM, HEADERS, RST_STREAM, RawHttp2};
use crate::support::upstream::Upstream;
use crate::tls::{open_with, until, yaml};

/// Interval between two parts of a body that flows.
const INTERVAL: Duration = Duration::from_millis(50);
/// Parts of a body that flows for longer than the timeouts of these tests.
const PARTS: usize = 20;
/// Shortest time in which a timeout of 300 ms may end an exchange.
const TIMEOUT: Duration = Duration::from_millis(250);

/// Starts a gateway to `upstream` with these settings of its sections and of the route.
fn gateway(upstream: &Upstream, http2: &str, server: &str, client: &str, metadata: &str) -> Gateway {
    Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, {server}}}\nhttpclient: {{{client}}}\nroutes: [{{id: a, uri: '{}', \
         http2: {http2}, predicates: [Path=/**], metadata: {{{metadata}}}}}]",
        upstream.uri()
    ))
}

/// Reads a request up to its first five bytes of body.
fn read_start(stream: &mut TcpStream) {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"hello") {
        stream.read_exact(&mut byte).unwrap();
        read.push(byte[0]);
    }
}

/// Starts an upstream that responds to the first bytes of a request: the head, then `parts` parts at intervals, then the
/// end if `ends`. Otherwise it is silent.
fn early(is_http2: bool, parts: usize, ends: bool) -> Upstream {
    if is_http2 {
        return RawHttp2::upstream(move |connection| {
            let Some((stream, _)) = connection.request() else { return };
            while connection.next().is_some_and(|frame| frame.kind != DATA) {}
            connection.head(stream, 0).flush();
            for _ in 0..parts {
                std::thread::sleep(INTERVAL);
                connection.data(stream, 0, b"part").flush();
            }
            if ends {
                connection.data(stream, END_STREAM, b"").flush();
            }
            connection.drain();
        });
    }
    Upstream::scripted(move |stream, _| {
        read_start(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..parts {
            std::thread::sleep(INTERVAL);
            let _ = stream.write_all(b"4\r\npart\r\n");
        }
        if ends {
            let _ = stream.write_all(b"0\r\n\r\n");
        }
        let _ = std::io::copy(stream, &mut std::io::sink());
    })
}

/// End of the part of a client in an exchange whose response has begun.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It sends nothing more.
    Silent,
    /// It breaks off its body.
    Broken,
    /// Its body grows above `RequestSize`.
    TooLarge,
    /// Its body is complete: only the upstream can end the exchange.
    Complete,
}

/// Client of either protocol, with a request whose body it has begun.
enum Client {
    Http1(crate::support::client::Connection),
    Http2(Raw),
}

impl Client {
    fn start(gateway: &Gateway, is_http2: bool) -> Self {
        if is_http2 {
            let mut client = Raw::open(gateway);
            client.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..]].concat());
            client.frame(DATA, 0, 1, b"hello");
            return Self::Http2(client);
        }
        let mut client = gateway.connect();
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        Self::Http1(client)
    }

    /// Sends a part of the body.
    fn send_part(&mut self, part: &str) {
        match self {
            Self::Http1(client) => client.send(format!("{:x}\r\n{part}\r\n", part.len())),
            Self::Http2(client) => client.frame(DATA, 0, 1, part.as_bytes()),
        }
    }

    fn end(&mut self, end: End) {
        match (end, self) {
            (End::Silent, _) => {}
            (End::Broken, Self::Http1(client)) => client.finish(),
            (End::Broken, Self::Http2(client)) => client.frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
            (End::TooLarge, client) => client.send_part(&"x".repeat(40)),
            (End::Complete, Self::Http1(client)) => client.send("0\r\n\r\n"),
            (End::Complete, Self::Http2(client)) => client.frame(DATA, END_STREAM, 1, b""),
        }
    }

    /// Reads the head and the first part of the response.
    fn begins(&mut self) {
        match self {
            Self::Http1(client) => assert!(client.until(b"part\r\n").ends_with(b"part\r\n")),
            Self::Http2(client) => assert_eq!(client.until(&[DATA, RST_STREAM, GOAWAY]), (DATA, b"part".to_vec())),
        }
    }

    /// Reads the response. Returns the bytes of its body, and true if it is complete.
    fn response(&mut self) -> (usize, bool) {
        match self {
            Self::Http1(client) => {
                let response = client.response().unwrap();
                (response.body.len(), response.complete)
            }
            Self::Http2(client) => {
                assert_eq!(client.until(&[HEADERS, RST_STREAM, GOAWAY]).0, HEADERS);
                let mut length = 0;
                loop {
                    match client.next() {
                        (DATA, flags, payload) => {
                            length += payload.len();
                            if flags & END_STREAM != 0 {
                                return (length, true);
                            }
                        }
                        (RST_STREAM | GOAWAY, ..) => return (length, false),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// The protocols of client and upstream: true for HTTP/2.
const PROTOCOLS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// Setting of a route for the protocol of its upstream.
fn setting(is_http2: bool) -> &'static str {
    if is_http2 { "prior-knowledge" } else { "off" }
}

#[test]
fn a_request_body_that_pauses_cuts_no_flowing_response() {
    for (client, upstream) in PROTOCOLS {
        let origin = early(upstream, PARTS, true);
        let gateway = gateway(&origin, setting(upstream), "body-timeout: 300ms", "read-timeout: 5s", "");
        let mut client = Client::start(&gateway, client);
        assert_eq!(client.response(), (4 * PARTS, true), "upstream with HTTP/2: {upstream}");
    }
}

#[test]
fn a_request_body_that_stops_ends_after_its_response() {
    for upstream in [false, true] {
        let origin = early(upstream, PARTS, true);
        let gateway = gateway(&origin, setting(upstream), "body-timeout: 300ms", "", "");
        let mut client = Client::start(&gateway, false);
        assert_eq!(client.response(), (4 * PARTS, true));
        let Client::Http1(mut client) = client else { return };
        let start = Instant::now();
        assert!(client.is_closed());
        assert!(start.elapsed() >= TIMEOUT, "{:?}", start.elapsed());
    }
}

#[test]
fn a_response_that_pauses_is_not_cut_while_its_request_body_flows() {
    for (client, upstream) in PROTOCOLS {
        let origin = early(upstream, 0, false);
        let gateway = gateway(&origin, setting(upstream), "", "read-timeout: 300ms", "");
        let mut client = Client::start(&gateway, client);
        let start = Instant::now();
        for _ in 0..PARTS {
            std::thread::sleep(INTERVAL);
            client.send_part("part");
        }
        let flowed = start.elapsed();
        assert_eq!(client.response(), (0, false));
        let silent = start.elapsed() - flowed;
        assert!(silent >= TIMEOUT && silent < Duration::from_secs(10), "{silent:?} after the last part");
    }
}

#[test]
fn an_exchange_that_is_silent_both_ways_ends_at_the_read_timeout() {
    for (client, upstream) in PROTOCOLS {
        let origin = early(upstream, 1, false);
        let gateway = gateway(&origin, setting(upstream), "body-timeout: 50ms", "read-timeout: 300ms", "");
        let start = Instant::now();
        assert_eq!(Client::start(&gateway, client).response(), (4, false));
        let took = start.elapsed();
        assert!(took >= TIMEOUT && took < Duration::from_secs(10), "{took:?}");
    }
}

#[test]
fn a_route_sets_its_read_timeout_or_switches_it_off() {
    let origin = Upstream::scripted(|stream, _| {
        let Some(_) = crate::support::upstream::read_request(stream) else { return };
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
        // Only waiting can show it.
        std::thread::sleep(Duration::from_millis(700));
        let _ = stream.write_all(b"data: 2\n\n");
    });
    let off = ["0", "-1", "10s", "10000"].map(|timeout| ("300ms", timeout, 18));
    for (global, of_route, length) in off.into_iter().chain([("0", "300ms", 9), ("-1", "300", 9), ("10s", "300", 9)]) {
        let metadata = format!("read-timeout: {of_route}");
        let gateway = gateway(&origin, "off", "", &format!("read-timeout: {global}"), &metadata);
        let mut client = gateway.connect();
        client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
        let events = client.response().unwrap();
        assert_eq!(events.body.len(), length, "{global}, {of_route} for the route");
    }
}

#[test]
fn a_client_that_ends_an_exchange_is_no_failure_of_the_endpoint() {
    let ends = [
        (End::Silent, "read-timeout", false),
        (End::Broken, "client-body", false),
        (End::TooLarge, "request-too-large", false),
        (End::Complete, "read-timeout", true),
    ];
    for ((is_http2_client, is_http2_upstream), (end, reason, is_failure)) in
        PROTOCOLS.into_iter().flat_map(|protocols| ends.map(|end| (protocols, end)))
    {
        let case = format!("{end:?}, HTTP/2 of client and upstream: {is_http2_client}, {is_http2_upstream}");
        let origin = early(is_http2_upstream, 1, false);
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access.log");
        let gateway = Gateway::start(&format!(
            "access-log: {{output: '{}', format: json}}\nhttpclient: {{read-timeout: 500ms}}\n\
             upstreams: {{u: {{endpoints: ['{}'], ejection: {{consecutive-failures: 1, max-percent: 100}}}}}}\n\
             routes: [{{id: a, uri: 'lb://u', http2: {}, predicates: [Path=/**], filters: ['RequestSize=20B']}}]",
            log.display(),
            origin.uri(),
            setting(is_http2_upstream),
        ));
        let mut client = Client::start(&gateway, is_http2_client);
        client.begins();
        client.end(end);
        let has_logged = || std::fs::read_to_string(&log).is_ok_and(|log| log.ends_with('\n'));
        eventually("the exchange ends", has_logged);
        let line = std::fs::read_to_string(&log).unwrap();
        // A reset ends the response, too.
        let reason = if matches!(end, End::Broken) && is_http2_client { "client-disconnected" } else { reason };
        assert!(line.contains(&format!("\"reason\":\"{reason}\"")), "{case}: {line}");
        let endpoint = || gateway.admin("/api/upstreams").json()[0]["endpoints"][0].clone();
        assert_eq!(endpoint().get("last-failure").is_some(), is_failure, "{case}: {}", endpoint());
        let ejections = gateway.metric("tollgate_upstream_ejections_total", &[]);
        assert_eq!(ejections, if is_failure { 1.0 } else { 0.0 }, "{case}");
    }
}

#[test]
fn a_request_body_that_pauses_cuts_no_flowing_response_over_tls() {
    let certificates = Certificates::new();
    let origin = early(false, PARTS, true);
    let routes = format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]", origin.uri());
    let gateway = Gateway::start(&yaml(&certificates, "", &routes).replace("  ssl:", "  body-timeout: 300ms\n  ssl:"));
    let http1 = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".to_vec();
    let fields = block(&[&[(":method", "POST")], &ORDINARY[1..]].concat());
    let http2 = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, b""),
        frame(HEADERS, END_HEADERS, 1, &fields),
        frame(DATA, 0, 1, b"hello"),
    ];
    for (protocol, start) in [("http/1.1", http1), ("h2", http2.concat())] {
        let mut client = open_with(gateway.address, &certificates, &[protocol]);
        client.write_all(&start).unwrap();
        (0..PARTS).for_each(|_| drop(until(&mut client, "part")));
    }
}
