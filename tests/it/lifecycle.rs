//! Start and shutdown of a gateway, and a shortage of file descriptors.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::load::{Load, statuses};
use crate::support::upstream::{Upstream, read_request, response};

pub(crate) fn yaml(upstream: &Upstream, server: &str) -> String {
    format!(
        "server: {{address: 127.0.0.1, workers: 2{server}}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]\n",
        upstream.uri()
    )
}

/// Upstream that reports the arrival of a request and responds when released. The head may be sent immediately.
pub(crate) struct Held {
    pub(crate) upstream: Upstream,
    pub(crate) arrived: Receiver<()>,
    pub(crate) release: Sender<()>,
}

impl Held {
    pub(crate) fn start(head_at_once: bool) -> Self {
        let (report_arrival, arrived) = channel();
        let (release, released) = channel();
        let (report_arrival, released) = (Mutex::new(report_arrival), Arc::new(Mutex::new(released)));
        let upstream = Upstream::scripted(move |stream, _| {
            while read_request(stream).is_some() {
                let answer = response(200, &[], b"the whole answer");
                let head = if head_at_once { answer.len() - 10 } else { 0 };
                let _ = stream.write_all(&answer[..head]);
                let _ = report_arrival.lock().unwrap().send(());
                let _ = released.lock().unwrap().recv();
                let _ = stream.write_all(&answer[head..]);
            }
        });
        Self { upstream, arrived, release }
    }
}

fn send(client: &mut Connection) {
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

#[test]
fn sigterm_under_load_loses_no_request() {
    let upstream = Upstream::ok("hello");
    let mut gateway = Gateway::start(&yaml(&upstream, ""));
    let load = Load::start(&[gateway.address], 16, &["/a"]);
    load.more(1000);
    let signalled = Instant::now();
    gateway.signal("TERM");
    let exchanges = load.join();
    let status = gateway.wait();
    println!("ended {:?} after SIGTERM under load, {} requests", signalled.elapsed(), exchanges.len());
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())], "every request got a response");
    assert_eq!(status.code(), Some(0));
    assert!(signalled.elapsed() < Duration::from_secs(10), "{:?}", signalled.elapsed());
    assert!(exchanges.iter().any(|exchange| exchange.header("connection") == Some("close")));
    assert!(gateway.log().contains("all requests finished"), "{}", gateway.log());
}

#[test]
fn sigint_shuts_down_as_sigterm_does() {
    let upstream = Upstream::ok("hello");
    let mut gateway = Gateway::start(&yaml(&upstream, ""));
    assert_eq!(gateway.get("/a").status, 200);
    gateway.signal("INT");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn an_in_flight_request_is_finished_before_shutdown() {
    for head_at_once in [false, true] {
        let held = Held::start(head_at_once);
        let mut gateway = Gateway::start(&yaml(&held.upstream, ""));
        let mut client = gateway.connect();
        send(&mut client);
        held.arrived.recv().unwrap();
        gateway.signal("TERM");
        gateway.logged("shutting down");
        eventually("new connections are refused", || Connection::try_open(gateway.address).is_err());
        held.release.send(()).unwrap();
        let answer = client.response().expect("an answer");
        assert_eq!((answer.status, answer.text().as_str(), answer.complete), (200, "the whole answer", true));
        assert!(client.is_closed());
        assert_eq!(gateway.wait().code(), Some(0));
    }
}

#[test]
fn readiness_fails_before_new_requests_are_refused() {
    let held = Held::start(false);
    let mut gateway = Gateway::start(&yaml(&held.upstream, ""));
    let (mut busy, mut idle) = (gateway.connect(), gateway.connect());
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    send(&mut busy);
    held.arrived.recv().unwrap();
    gateway.signal("TERM");
    eventually("readiness fails", || gateway.admin("/health/ready").status == 503);
    // For one second, requests are accepted from clients that do not know yet.
    send(&mut idle);
    held.arrived.recv().unwrap();
    assert_eq!(gateway.admin("/health/live").status, 200, "it lives until it ends");
    for client in [&mut busy, &mut idle] {
        held.release.send(()).unwrap();
        assert_eq!(client.response().expect("an answer").status, 200);
        // Workers learn of the drain after the admin port: the last response may announce no end.
        assert!(client.is_closed());
    }
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn idle_connections_do_not_delay_the_shutdown() {
    for http2 in [true, false] {
        let upstream = Upstream::ok("hello");
        let mut gateway = Gateway::start(&yaml(&upstream, &format!(", http2: {{enabled: {http2}}}")));
        let (mut fresh, mut kept) = (gateway.connect(), gateway.connect());
        assert_eq!(kept.request("GET", "/a", &[], b"").status, 200);
        let signalled = Instant::now();
        gateway.signal("TERM");
        assert_eq!(gateway.wait().code(), Some(0));
        assert!(signalled.elapsed() < Duration::from_secs(10), "http2 {http2}: {:?}", signalled.elapsed());
        assert!(fresh.is_closed() && kept.is_closed());
    }
}

#[test]
fn a_request_longer_than_the_shutdown_timeout_is_aborted() {
    let held = Held::start(true);
    let mut gateway = Gateway::start(&yaml(&held.upstream, ", shutdown-timeout: 300ms"));
    let mut client = gateway.connect();
    send(&mut client);
    held.arrived.recv().unwrap();
    let signalled = Instant::now();
    gateway.signal("TERM");
    let status = gateway.wait();
    let took = signalled.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(10), "{took:?}");
    assert_eq!(status.code(), Some(0));
    gateway.logged("connections closed at the end of `server.shutdown-timeout`");
    assert!(!client.response().is_some_and(|answer| answer.complete));
}

#[test]
fn a_second_signal_exits_immediately() {
    let held = Held::start(true);
    let mut gateway = Gateway::start(&yaml(&held.upstream, ""));
    let mut client = gateway.connect();
    send(&mut client);
    held.arrived.recv().unwrap();
    gateway.signal("TERM");
    gateway.logged("shutting down");
    let signalled = Instant::now();
    gateway.signal("TERM");
    let status = gateway.wait();
    assert!(signalled.elapsed() < Duration::from_secs(5), "{:?}", signalled.elapsed());
    assert_eq!(status.code(), Some(0));
    gateway.logged("second signal: exiting immediately");
}

#[test]
fn the_gateway_serves_soon_after_its_start() {
    let upstream = Upstream::ok("hello");
    let start = Instant::now();
    let gateway = Gateway::start(&yaml(&upstream, ""));
    let listening = start.elapsed();
    assert_eq!(gateway.get("/a").text(), "hello");
    println!("listening {listening:?} after its start, first answer after {:?}", start.elapsed());
}

#[test]
fn a_gateway_out_of_file_descriptors_keeps_serving_and_recovers() {
    let upstream = Upstream::ok("hello");
    let config = format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]\n", upstream.uri());
    let gateway = Gateway::start_under("ulimit -n 40", &config);
    let mut first = gateway.connect();
    assert_eq!(first.request("GET", "/a", &[], b"").status, 200);
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    // Clients of the admin port are not counted: they can take the remaining descriptors.
    let crowd: Vec<Connection> = (0..80).map(|_| Connection::open(gateway.admin)).collect();
    let taken = |number: &u32| std::fs::symlink_metadata(format!("/proc/{}/fd/{number}", gateway.pid())).is_ok();
    eventually("every descriptor is taken", || (0..40).all(|number| taken(&number)));
    let mut late = gateway.connect();
    send(&mut late);
    gateway.logged("cannot accept connections");
    let (start, begin) = (Instant::now(), ticks());
    while start.elapsed() < Duration::from_millis(500) {
        assert_eq!(first.request("GET", "/a", &[], b"").status, 200, "accepted connections are served");
        std::thread::sleep(Duration::from_millis(10));
    }
    let spent = ticks() - begin;
    println!("{spent} of 50 ticks of CPU in half a second without descriptors");
    assert!(spent < 25, "it does not spin: {spent} ticks");
    drop(crowd);
    assert_eq!(late.response().expect("an answer").status, 200, "and others once there is room");
    assert!(gateway.log().matches("cannot accept").count() <= 5, "{}", gateway.log());
}

#[test]
fn many_clients_leave_descriptors_for_upstreams() {
    let upstream = Upstream::ok("hello");
    let config = format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]\n", upstream.uri());
    let gateway = Gateway::start_under("ulimit -n 40", &config);
    gateway.logged("open file limit is lower than `server.max-connections` needs");
    let mut crowd: Vec<Connection> = (0..40).map(|_| gateway.connect()).collect();
    // Concurrently, so that each request needs an upstream connection; further clients wait in the accept queue.
    for client in &mut crowd {
        client.send("GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    }
    for mut client in crowd {
        let answer = client.response().expect("an answer");
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    }
}
