//! Requests that wait for a stream: all connections to an HTTP/2 upstream have reached its limit of streams.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::client::{Response, get};
use crate::support::gateway::Gateway;
use crate::support::raw_http2::{NO_ERROR, RawHttp2, SETTINGS};
use crate::support::upstream::Upstream;
use crate::support::{PATIENCE, eventually};

/// Next step of an upstream.
enum Step {
    /// Reads the next request.
    Read,
    /// Responds to the stream.
    Respond(u32),
    /// Changes the limit of streams.
    Limit(u8),
    /// Sends GOAWAY with this last stream.
    GoAway(u32),
    /// Closes the connection.
    Close,
}

/// Upstream that reports the streams of requests, and takes one step after the other. Its limit is one stream.
struct Stepped {
    upstream: Upstream,
    streams: Receiver<u32>,
    steps: Sender<Step>,
}

impl Stepped {
    fn start() -> Self {
        let ((report, streams), (steps, next)) = (channel(), channel());
        let next = Mutex::new(next);
        let upstream = RawHttp2::upstream(move |connection| {
            connection.frame(SETTINGS, 0, 0, &limit(1)).flush();
            while let Some((stream, _)) = connection.request() {
                report.send(stream).unwrap();
                loop {
                    match next.lock().unwrap().recv() {
                        Ok(Step::Read) => break,
                        Ok(Step::Respond(stream)) => connection.respond(stream, b"ok"),
                        Ok(Step::Limit(streams)) => connection.frame(SETTINGS, 0, 0, &limit(streams)),
                        Ok(Step::GoAway(last)) => connection.go_away(last, NO_ERROR),
                        Ok(Step::Close) | Err(_) => return,
                    }
                    .flush();
                }
            }
        });
        Self { upstream, streams, steps }
    }

    fn step(&self, step: Step) {
        self.steps.send(step).unwrap();
    }

    /// Waits for the head of the next request and returns its stream.
    fn stream(&self) -> u32 {
        self.streams.recv_timeout(PATIENCE).unwrap()
    }

    /// Sends a request to its end, so that the gateway knows the limit.
    fn warm_up(&self, gateway: &Gateway) {
        let first = request(gateway.address);
        let stream = self.stream();
        self.step(Step::Respond(stream));
        self.step(Step::Read);
        assert_eq!(first.join().unwrap().status, 200);
    }
}

/// `SETTINGS_MAX_CONCURRENT_STREAMS`.
fn limit(streams: u8) -> [u8; 6] {
    [0, 3, 0, 0, 0, streams]
}

fn request(address: SocketAddr) -> JoinHandle<Response> {
    std::thread::spawn(move || get(address, "/x"))
}

/// YAML with a pool of one connection to each of `uris`.
fn yaml(uris: &[String], acquire_timeout: &str) -> String {
    format!(
        "httpclient: {{pool: {{type: fixed, max-connections: 1, acquire-timeout: {acquire_timeout}}}}}\n\
         upstreams: {{a: {{endpoints: ['{}']}}}}\n\
         routes: [{{id: a, uri: 'lb://a', http2: prior-knowledge, predicates: [Path=/**]}}]",
        uris.join("', '")
    )
}

fn gateway(stepped: &Stepped, acquire_timeout: &str) -> Gateway {
    Gateway::start(&yaml(&[stepped.upstream.uri()], acquire_timeout))
}

/// Waits until `count` requests are on their way to the upstream, or wait for a stream.
fn in_flight(gateway: &Gateway, count: f64) {
    eventually("the requests are in flight", || gateway.metric("tollgate_upstream_in_flight{", &[]) == count);
}

#[test]
fn a_request_that_waits_too_long_for_a_stream_gets_503() {
    let stepped = Stepped::start();
    let gateway = gateway(&stepped, "200ms");
    stepped.warm_up(&gateway);
    let held = request(gateway.address);
    let stream = stepped.stream();
    let start = Instant::now();
    assert_eq!(gateway.get("/x").status, 503);
    assert!((Duration::from_millis(190)..PATIENCE).contains(&start.elapsed()));
    gateway.logged("all connections allowed by `httpclient.pool.max-connections` are in use");
    stepped.step(Step::Respond(stream));
    assert_eq!(held.join().unwrap().status, 200);
    assert_eq!(stepped.upstream.connections(), 1);
}

#[test]
fn a_waiting_request_gets_the_stream_that_ends() {
    let stepped = Stepped::start();
    let gateway = gateway(&stepped, "60s");
    stepped.warm_up(&gateway);
    let requests: Vec<_> = (0..4).map(|_| request(gateway.address)).collect();
    in_flight(&gateway, 4.0);
    for _ in 0..4 {
        let stream = stepped.stream();
        assert!(stepped.streams.try_recv().is_err(), "one stream at a time");
        stepped.step(Step::Respond(stream));
        stepped.step(Step::Read);
    }
    assert!(requests.into_iter().all(|request| request.join().unwrap().status == 200));
    assert_eq!(stepped.upstream.connections(), 1);
}

#[test]
fn a_raised_limit_serves_waiting_requests() {
    let stepped = Stepped::start();
    let gateway = gateway(&stepped, "60s");
    stepped.warm_up(&gateway);
    let requests: Vec<_> = (0..3).map(|_| request(gateway.address)).collect();
    in_flight(&gateway, 3.0);
    let first = stepped.stream();
    stepped.step(Step::Limit(3));
    stepped.step(Step::Read);
    let second = stepped.stream();
    stepped.step(Step::Read);
    let third = stepped.stream();
    [first, second, third].into_iter().for_each(|stream| stepped.step(Step::Respond(stream)));
    assert!(requests.into_iter().all(|request| request.join().unwrap().status == 200));
    assert_eq!(stepped.upstream.connections(), 1);
}

#[test]
fn a_waiting_request_gets_the_connection_after_one_that_ends() {
    let stepped = Stepped::start();
    let gateway = gateway(&stepped, "60s");
    stepped.warm_up(&gateway);
    let requests: Vec<_> = (0..2).map(|_| request(gateway.address)).collect();
    in_flight(&gateway, 2.0);
    let stream = stepped.stream();
    stepped.step(Step::GoAway(stream));
    stepped.step(Step::Respond(stream));
    stepped.step(Step::Close);
    assert_eq!(stepped.stream(), 1, "the first stream of a new connection");
    stepped.step(Step::Respond(1));
    assert!(requests.into_iter().all(|request| request.join().unwrap().status == 200));
    assert_eq!(stepped.upstream.connections(), 2);
}

#[test]
fn requests_that_wait_for_a_stream_do_not_reach_an_endpoint_that_has_left() {
    let (a, b) = (Stepped::start(), Stepped::start());
    let gateway = gateway(&a, "60s");
    a.warm_up(&gateway);
    let requests: Vec<_> = (0..2).map(|_| request(gateway.address)).collect();
    in_flight(&gateway, 2.0);
    let stream = a.stream();
    gateway.reload(&yaml(&[b.upstream.uri()], "60s"));
    let moved = b.stream();
    b.step(Step::Respond(moved));
    a.step(Step::Respond(stream));
    a.step(Step::Read);
    assert!(requests.into_iter().all(|request| request.join().unwrap().status == 200));
    assert!(a.streams.try_recv().is_err(), "no other request reached the endpoint");
}

#[test]
fn a_stream_whose_request_is_still_being_sent_counts() {
    let stepped = Stepped::start();
    let gateway = gateway(&stepped, "200ms");
    stepped.warm_up(&gateway);
    let mut uploading = gateway.connect();
    uploading.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst");
    let stream = stepped.stream();
    stepped.step(Step::Respond(stream));
    assert_eq!(uploading.response().unwrap().status, 200);
    assert_eq!(gateway.get("/x").status, 503, "its stream is open");
    uploading.send("other");
    let next = request(gateway.address);
    stepped.step(Step::Read);
    let stream = stepped.stream();
    stepped.step(Step::Respond(stream));
    assert_eq!(next.join().unwrap().status, 200);
}
