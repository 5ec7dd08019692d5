//! The delay before a drain, and what HTTP/2 clients are told of it.

use std::time::{Duration, Instant};

use crate::http2::raw::{DATA, END_STREAM, GOAWAY, ORDINARY, PING, RST_STREAM, Raw};
use crate::lifecycle::{Held, yaml};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::load::{Load, statuses};
use crate::support::upstream::Upstream;

/// Flag of a frame that acknowledges another.
const ACK: u8 = 1;

#[test]
fn requests_are_served_as_before_until_the_drain_begins() {
    let upstream = Upstream::ok("hello");
    let mut gateway = Gateway::start(&yaml(&upstream, ", drain-delay: 1h"));
    let mut kept = gateway.connect();
    assert_eq!(kept.request("GET", "/a", &[], b"").status, 200);
    gateway.signal("TERM");
    eventually("readiness fails", || gateway.admin("/health/ready").status == 503);
    for _ in 0..3 {
        let answers = [kept.request("GET", "/a", &[], b""), gateway.get("/a")];
        assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
        assert_eq!(answers[0].header("connection"), None, "the connection stays open");
    }
    assert!(!gateway.log().contains("shutting down"), "{}", gateway.log());
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0), "a second signal ends the delay");
}

#[test]
fn the_drain_begins_after_its_delay_and_loses_no_request() {
    let upstream = Upstream::ok("hello");
    let mut gateway = Gateway::start(&yaml(&upstream, ", drain-delay: 300ms, shutdown-timeout: 20s"));
    let load = Load::start(&[gateway.address], 16, &["/a"]);
    load.more(500);
    let signalled = Instant::now();
    gateway.signal("TERM");
    gateway.logged("shutting down");
    assert!(signalled.elapsed() >= Duration::from_millis(300), "{:?}", signalled.elapsed());
    let exchanges = load.join();
    assert_eq!(gateway.wait().code(), Some(0));
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
}

#[test]
fn an_http2_client_gets_goaway_in_two_steps_and_every_stream_before_the_last_one_ends() {
    let held = Held::start(true);
    let mut gateway = Gateway::start(&yaml(&held.upstream, ""));
    let mut client = Raw::open(&gateway);
    client.headers(1, END_STREAM, &ORDINARY);
    held.arrived.recv().unwrap();
    gateway.signal("TERM");
    let (mut goaways, mut ping) = (Vec::new(), None);
    while ping.is_none() {
        match client.next() {
            (GOAWAY, _, payload) => goaways.push(payload[..8].to_vec()),
            (PING, 0, payload) => ping = Some(payload),
            _ => {}
        }
    }
    // The client has not heard of the shutdown when it sends this one.
    client.headers(3, END_STREAM, &ORDINARY);
    held.arrived.recv().unwrap();
    client.frame(PING, ACK, 0, &ping.unwrap());
    while goaways.len() < 2 {
        if let (GOAWAY, _, payload) = client.next() {
            goaways.push(payload[..8].to_vec());
        }
    }
    let named = |last: u32| [last.to_be_bytes(), [0; 4]].concat();
    assert_eq!(goaways, [named(u32::MAX >> 1), named(3)], "last stream and NO_ERROR");
    held.release.send(()).unwrap();
    held.release.send(()).unwrap();
    let mut ended = 0;
    while ended < 2 {
        match client.next() {
            (DATA, flags, _) => ended += usize::from(flags & END_STREAM != 0),
            (kind, ..) => assert!(kind != RST_STREAM && kind != GOAWAY, "frame {kind} after {ended} streams"),
        }
    }
    assert_eq!(gateway.wait().code(), Some(0));
}
