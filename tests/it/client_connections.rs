//! Limits of client connections and streams, and clients that close their sending side.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::http2::raw::{END_STREAM, GOAWAY, HEADERS, OK, ORDINARY, RST_STREAM, Raw, SETTINGS};
use crate::proxy_protocol::{BALANCER, line, proxied};
use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};
use crate::support::{PATIENCE, eventually};

const REFUSED_STREAM: u32 = 7;

fn gateway(server: &str, uri: &str) -> Gateway {
    Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, {server}}}\n\
         routes: [{{id: a, uri: '{uri}', predicates: [Path=/**]}}]"
    ))
}

/// Opens a connection and makes one request on it.
fn used(gateway: &Gateway) -> Connection {
    let mut client = gateway.connect();
    assert_eq!(client.request("GET", "/x", &[], b"").status, 200);
    client
}

/// Starts an upstream that responds once for each message on the returned channel.
fn prompted() -> (Upstream, std::sync::mpsc::Sender<()>) {
    let (answer, answering) = channel();
    let answering = Mutex::new(answering);
    let upstream = Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            seen(request);
            if answering.lock().unwrap().recv_timeout(PATIENCE).is_err() {
                return;
            }
            let _ = stream.write_all(&response(200, &[], b"ok"));
        }
    });
    (upstream, answer)
}

#[test]
fn a_client_has_a_limited_number_of_connections() {
    let upstream = Upstream::ok("ok");
    let gateway = gateway("max-connections-per-client: 3", &upstream.uri());
    let mut clients: Vec<Connection> = (0..3).map(|_| used(&gateway)).collect();
    assert!(gateway.connect().is_closed());
    gateway.logged("`server.max-connections-per-client` reached");
    for client in &mut clients {
        assert_eq!(client.request("GET", "/x", &[], b"").status, 200);
    }
    clients.pop();
    eventually("the place is free", || gateway.connect().try_request("GET", "/x", &[], b"").is_some());
}

#[test]
fn a_trusted_proxy_has_no_limit_of_its_own() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, max-connections-per-client: 1}}\ntrusted-proxies: [127.0.0.0/8]\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let clients: Vec<Connection> = (0..3).map(|_| used(&gateway)).collect();
    assert_eq!(clients.len(), 3);
}

#[test]
fn a_full_gateway_closes_the_connection_that_was_idle_for_the_longest_time() {
    let (upstream, answer) = prompted();
    let gateway = gateway("max-connections: 3, max-connections-per-client: 100", &upstream.uri());
    let mut idle = [gateway.connect(), gateway.connect()];
    for client in &mut idle {
        client.send("GET /idle HTTP/1.1\r\nHost: a\r\n\r\n");
        answer.send(()).unwrap();
        assert_eq!(client.response().unwrap().status, 200);
    }
    let mut busy = gateway.connect();
    busy.send("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request arrived", || upstream.requests().len() == 3);
    // Served only after an idle connection has been closed.
    let mut next = gateway.connect();
    next.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request arrived", || upstream.requests().len() == 4);
    let [first, second] = &mut idle;
    assert!(first.is_closed());
    answer.send(()).unwrap();
    answer.send(()).unwrap();
    assert_eq!(busy.response().unwrap().status, 200);
    assert_eq!(next.response().unwrap().status, 200);
    second.send("GET /idle HTTP/1.1\r\nHost: a\r\n\r\n");
    answer.send(()).unwrap();
    assert_eq!(second.response().unwrap().status, 200);
}

#[test]
fn an_idle_http_2_connection_is_closed_with_goaway_when_the_gateway_is_full() {
    let upstream = Upstream::ok("ok");
    let gateway = gateway("max-connections: 1, max-connections-per-client: 100", &upstream.uri());
    let mut idle = Raw::open(&gateway);
    idle.headers(1, END_STREAM, &ORDINARY);
    assert_eq!(idle.outcome(), (HEADERS, OK));
    let mut next = used(&gateway);
    let (kind, payload) = idle.until(&[GOAWAY]);
    assert_eq!((kind, &payload[..8]), (GOAWAY, &[0, 0, 0, 1, 0, 0, 0, 0][..]), "the last request, and no error");
    assert!(idle.0.is_closed());
    assert_eq!(next.request("GET", "/x", &[], b"").status, 200);
}

#[test]
fn a_client_has_a_limited_number_of_streams_over_all_connections() {
    let (upstream, answer) = prompted();
    let gateway = gateway("max-streams-per-client: 2", &upstream.uri());
    let mut clients = [Raw::open(&gateway), Raw::open(&gateway), Raw::open(&gateway)];
    for (n, client) in clients[..2].iter_mut().enumerate() {
        client.headers(1, END_STREAM, &ORDINARY);
        eventually("the request arrived", || upstream.requests().len() == n + 1);
    }
    clients[2].headers(1, END_STREAM, &ORDINARY);
    assert_eq!(clients[2].until(&[HEADERS, RST_STREAM]), (RST_STREAM, REFUSED_STREAM.to_be_bytes().to_vec()));
    answer.send(()).unwrap();
    answer.send(()).unwrap();
    for client in &mut clients[..2] {
        assert_eq!(client.outcome(), (HEADERS, OK));
    }
    answer.send(()).unwrap();
    // A stream counts until its last frame has been written.
    eventually("a place is free", || {
        let mut client = Raw::open(&gateway);
        client.headers(1, END_STREAM, &ORDINARY);
        client.outcome() == (HEADERS, OK)
    });
}

#[test]
fn streams_of_a_client_are_counted_by_the_address_of_its_proxy_header() {
    let (upstream, answer) = prompted();
    let settings = format!("max-streams-per-client: 1, proxy-protocol: {{trusted: [{BALANCER}]}}");
    let gateway = gateway(&settings, &upstream.uri());
    let open = |address: &str| {
        let mut client = Raw(proxied(gateway.address, line(address) + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        client.frame(SETTINGS, 0, 0, &[]);
        client.headers(1, END_STREAM, &ORDINARY);
        client
    };
    let mut first = open("192.0.2.7");
    eventually("the request arrived", || upstream.requests().len() == 1);
    let refused = (RST_STREAM, REFUSED_STREAM.to_be_bytes().to_vec());
    assert_eq!(open("192.0.2.7").until(&[HEADERS, RST_STREAM]), refused, "over all its connections");
    let mut other = open("192.0.2.8");
    eventually("the request of another client arrived", || upstream.requests().len() == 2);
    answer.send(()).unwrap();
    answer.send(()).unwrap();
    assert_eq!([first.outcome(), other.outcome()], [(HEADERS, OK); 2]);
}

#[test]
fn a_client_that_closed_its_sending_side_gets_its_response() {
    let (upstream, answer) = prompted();
    let gateway = gateway("header-timeout: 30s", &upstream.uri());
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok");
    client.finish();
    eventually("the request arrived", || upstream.requests().len() == 1);
    let mut stream = Raw::open(&gateway);
    stream.headers(1, END_STREAM, &ORDINARY);
    stream.0.finish();
    eventually("the request arrived", || upstream.requests().len() == 2);
    answer.send(()).unwrap();
    answer.send(()).unwrap();
    assert_eq!(client.response().unwrap().status, 200);
    assert!(client.is_closed());
    assert_eq!(stream.outcome(), (HEADERS, OK));
    stream.0.rest();
}

#[test]
fn a_response_without_a_body_reaches_an_http2_client_that_closed_its_sending_side() {
    let (upstream, answer) = prompted();
    let gateway = gateway("header-timeout: 30s", &upstream.uri());
    for count in 1..=10 {
        let mut stream = Raw::open(&gateway);
        stream.headers(1, END_STREAM, &[&[(":method", "HEAD")], &ORDINARY[1..]].concat());
        stream.0.finish();
        eventually("the request arrived", || upstream.requests().len() == count);
        answer.send(()).unwrap();
        assert_eq!(stream.outcome(), (HEADERS, OK));
    }
}

#[test]
fn half_close_off_cancels_the_request() {
    let (upstream, _answer) = prompted();
    let gateway = gateway("half-close: false", &upstream.uri());
    let mut client = gateway.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request arrived", || upstream.requests().len() == 1);
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn a_body_cut_by_a_half_close_is_not_completed() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    client.finish();
    let rest = String::from_utf8(client.rest()).unwrap();
    assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 400"), "{rest}");
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn requests_that_arrive_during_another_are_answered_in_their_order() {
    let (upstream, answer) = prompted();
    for half_close in [false, true] {
        let gateway = gateway(&format!("half-close: {half_close}"), &upstream.uri());
        let before = upstream.requests().len();
        let mut client = gateway.connect();
        client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("the upstream has the first", || upstream.requests().len() == before + 1);
        // More than the gateway reads while it watches for the end of the client.
        let long = "x".repeat(3000);
        client.send(format!("GET /2 HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n"));
        for _ in 0..3 {
            answer.send(()).unwrap();
            assert_eq!(client.response().unwrap().status, 200);
        }
        let targets: Vec<_> = upstream.requests()[before..].iter().map(|seen| seen.target().to_owned()).collect();
        assert_eq!(targets, ["/1", "/2", "/3"]);
    }
}

#[test]
fn an_idle_connection_holds_no_buffer_of_its_requests() {
    const COUNT: usize = 1000;
    let upstream = Upstream::ok("ok");
    let gateway = gateway(&format!("max-connections-per-client: {}", COUNT + 100), &upstream.uri());
    let first: Vec<_> = (0..100).map(|_| used(&gateway)).collect();
    let before = gateway.allocated();
    let clients: Vec<_> = (0..COUNT).map(|_| used(&gateway)).collect();
    let each = gateway.allocated().saturating_sub(before) / COUNT;
    assert!(each < 6 * 1024, "{each} bytes for an idle connection");
    drop((first, clients));
}
