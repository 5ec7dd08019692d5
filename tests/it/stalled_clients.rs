//! Clients that stall their bodies: the time is theirs, not that of the upstream.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::http2::raw::{DATA, END_STREAM, HEADERS, OK, ORDINARY, Raw};
use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

/// A client that has sent half of its body.
enum Client {
    Http1(Connection),
    Http2(Raw),
}

impl Client {
    fn start(gateway: &Gateway, is_http2: bool, path: &str) -> Self {
        if is_http2 {
            let mut client = Raw::open(gateway);
            let fields = [(":method", "POST"), (":path", path), ("content-length", "10")];
            client.headers(1, 0, &[&fields[..2], &ORDINARY[1..3], &fields[2..]].concat());
            client.frame(DATA, 0, 1, b"hello");
            return Self::Http2(client);
        }
        let mut client = gateway.connect();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"));
        Self::Http1(client)
    }

    /// Sends the rest of the body.
    fn finish(&mut self) {
        match self {
            Self::Http1(client) => client.send("world"),
            Self::Http2(client) => client.frame(DATA, END_STREAM, 1, b"world"),
        }
    }

    /// Waits for the response. Returns true for status 200, and false for 408.
    fn succeeds(self) -> bool {
        let mut client = match self {
            Self::Http1(mut client) => {
                let status = client.response().unwrap().status;
                assert!([200, 408].contains(&status), "{status}");
                return status == 200;
            }
            Self::Http2(client) => client,
        };
        let (kind, status) = client.outcome();
        assert_eq!(kind, HEADERS);
        status == OK
    }
}

/// Upstreams that wait for bodies, with an ejection after two failures and a breaker that opens at two.
#[test]
fn clients_that_stall_their_bodies_neither_eject_an_endpoint_nor_open_a_breaker() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, body-timeout: 1500ms}}\n\
         httpclient: {{response-timeout: 700ms}}\n\
         resilience4j: {{circuitbreaker: {{instances: {{cb: {{sliding-window-size: 2, minimum-number-of-calls: 2}}}}}}, \
         timelimiter: {{instances: {{cb: {{timeout-duration: 700ms}}}}}}}}\n\
         upstreams: {{orders: {{endpoints: ['{}'], ejection: {{consecutive-failures: 2, max-percent: 100}}}}}}\n\
         routes:\n\
         - {{id: a, uri: 'lb://orders', predicates: [Path=/a]}}\n\
         - {{id: b, uri: 'lb://orders', predicates: [Path=/b], filters: [{{name: CircuitBreaker, args: {{name: cb}}}}]}}",
        upstream.uri()
    ));
    for (path, is_http2) in [("/a", false), ("/b", false), ("/a", true), ("/b", true)] {
        let stalled: Vec<Client> = (0..3).map(|_| Client::start(&gateway, is_http2, path)).collect();
        assert!(stalled.into_iter().all(|client| !client.succeeds()), "{path}, HTTP/2: {is_http2}");
        assert_eq!(gateway.get(path).status, 200, "{path}, HTTP/2: {is_http2}");
    }
    assert_eq!(gateway.metric("tollgate_upstream_ejections_total", &[]), 0.0);
    assert_eq!(gateway.metric("tollgate_circuit_breaker_calls_total", &["kind=\"failed\""]), 0.0);
}

/// Without `body-timeout`, no other timeout ends the silent client's call.
#[test]
fn a_silent_client_does_not_keep_a_breaker_half_open() {
    for is_http2 in [false, true] {
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = Arc::clone(&is_broken);
        let upstream = Upstream::start(move |_| response(if broken.load(Relaxed) { 500 } else { 200 }, &[], b""));
        let gateway = Gateway::start(&format!(
            "server: {{address: 127.0.0.1, workers: 1, body-timeout: 0}}\nhttpclient: {{response-timeout: 0}}\n\
             resilience4j: {{circuitbreaker: {{instances: {{cb: {{sliding-window-size: 2, minimum-number-of-calls: 2, \
             permitted-number-of-calls-in-half-open-state: 1, wait-duration-in-open-state: 1ms}}}}}}, \
             timelimiter: {{instances: {{cb: {{timeout-duration: 300ms}}}}}}}}\n\
             routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [{{name: CircuitBreaker, args: {{name: cb, \
             statusCodes: [500]}}}}]}}]",
            upstream.uri()
        ));
        assert_eq!([gateway.get("/").status, gateway.get("/").status], [500; 2]);
        is_broken.store(false, Relaxed);
        // Only waiting ends the open state.
        std::thread::sleep(Duration::from_millis(50));
        let mut silent = Client::start(&gateway, is_http2, "/");
        eventually("the silent client has the place", || {
            gateway.metric("tollgate_circuit_breaker_state", &["state=\"half_open\""]) == 1.0
        });
        assert_eq!(gateway.get("/").status, 503);
        eventually("another call has closed the breaker", || gateway.get("/").status == 200);
        silent.finish();
        assert!(silent.succeeds(), "it goes on");
        assert_eq!(gateway.metric("tollgate_circuit_breaker_calls_total", &["kind=\"failed\""]), 2.0);
    }
}

#[test]
fn an_upstream_that_gives_up_a_stalled_upload_has_not_failed() {
    let upstream = Upstream::scripted(|stream, _| {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(1_500)));
        let mut bytes = [0; 4096];
        while matches!(stream.read(&mut bytes), Ok(1..)) {}
    });
    for is_http2 in [false, true] {
        let gateway = Gateway::filtering(&upstream.uri(), "[{name: CircuitBreaker, args: {name: cb}}]");
        assert!(!Client::start(&gateway, is_http2, "/x").succeeds());
        let calls = |kind: &str| gateway.metric("tollgate_circuit_breaker_calls_total", &[&format!("kind=\"{kind}\"")]);
        assert_eq!((calls("failed"), calls("ignored")), (0.0, 1.0), "HTTP/2: {is_http2}");
    }
}
