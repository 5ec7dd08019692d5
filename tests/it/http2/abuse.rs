//! Malicious frames and clients that stop reading.

use std::time::{Duration, Instant};

use super::raw::{END_STREAM, HEADERS, OK, ORDINARY, PING, RST_STREAM, Raw, SETTINGS, WINDOW_UPDATE, block};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

#[test]
fn an_endless_head_closes_the_connection() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = Raw::open(&gateway);
    client.frame(HEADERS, END_STREAM, 1, &block(&ORDINARY));
    let filler = block(&[("x", "y")]).repeat(1000);
    for sent in 0.. {
        assert!(sent < 100_000, "CONTINUATION frames without end");
        let length = u32::try_from(filler.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[9, 0], &1_u32.to_be_bytes()].concat();
        if client.0.try_send([&head[..], &filler].concat()).is_err() {
            break;
        }
    }
    assert_eq!(gateway.get("/next").status, 200);
    assert_eq!(upstream.targets(), ["/next"]);
}

#[test]
fn a_rapid_reset_attack_gets_goaway_or_is_survived() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = Raw::open(&gateway);
    for n in 0..20_000_u32 {
        let stream = 2 * n + 1;
        client.headers(stream, END_STREAM, &ORDINARY);
        client.frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    assert_eq!(gateway.get("/next").status, 200);
    drop(client);
    assert_eq!(gateway.get("/last").status, 200);
}

#[test]
fn floods_of_control_frames_do_not_block_other_connections() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    assert_eq!(gateway.get("/first").status, 200);
    let before = gateway.allocated();
    let frames = [
        (6, 0, vec![0; 8]),
        (4, 0, vec![]),
        (0, 1, vec![]),
        (8, 0, vec![0, 0, 0, 1]),
        (8, 1, vec![0, 0, 0, 1]),
        (2, 3, vec![0; 5]),
        (0xbe, 0, vec![]),
    ];
    for (kind, stream, payload) in frames {
        let mut client = Raw::open(&gateway);
        client.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..]].concat());
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, 0], &u32::to_be_bytes(stream), &payload].concat();
        client.0.stream().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        // The gateway stops reading or closes: it answers each request, and the client does not read the responses.
        for _ in 0..100 {
            if client.0.try_send(frame.repeat(1000)).is_err() {
                break;
            }
        }
        let start = Instant::now();
        assert_eq!(gateway.get("/next").status, 200, "frames of kind {kind}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?} for frames of kind {kind}", start.elapsed());
    }
    let grown = gateway.allocated().saturating_sub(before);
    assert!(grown < 8 * 1024 * 1024, "{grown} bytes of memory");
}

#[test]
fn a_response_that_is_not_read_is_reset_and_the_others_go_on() {
    let upstream = Upstream::start(|request| {
        let length = if request.target() == "/x" { 300_000 } else { 2 };
        response(200, &[], &vec![b'x'; length])
    });
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, write-timeout: 300ms}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = Raw::open(&gateway);
    client.headers(1, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
    // 64 KB fill the window of the stream, which is never opened again. The window of the connection is.
    client.frame(WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes());
    assert_eq!(client.outcome(), (RST_STREAM, 0));
    client.headers(3, END_STREAM, &[ORDINARY[0], ORDINARY[1], ORDINARY[2], (":path", "/y")]);
    assert_eq!(client.outcome(), (HEADERS, OK));
    assert_eq!(upstream.targets(), ["/x", "/y"]);
}

/// Bytes that the gateway has collected for one write count as unread too.
#[test]
fn a_connection_that_reads_nothing_is_closed_after_the_write_timeout() {
    let upstream = Upstream::start(|_| response(200, &[], &vec![b'x'; 60_000]));
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, write-timeout: 300ms}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let open = || gateway.metric("tollgate_client_connections{", &[]);
    let mut client = Raw::open(&gateway);
    client.frame(SETTINGS, 0, 0, &[&4_u16.to_be_bytes()[..], &0x7fff_ffff_u32.to_be_bytes()].concat());
    client.frame(WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes());
    // Each response is complete, and the sockets hold far less than all of them.
    for n in 0..500 {
        client.headers(2 * n + 1, END_STREAM, &ORDINARY);
        let count = n as usize + 1;
        let answered = || upstream.requests().len() >= count || open() == 0.0;
        eventually("the upstream has answered, or the connection is closed", answered);
        if open() == 0.0 {
            return;
        }
    }
    eventually("the connection is closed", || open() == 0.0);
}

#[test]
fn a_ping_does_not_start_the_header_timeout_of_an_idle_connection() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, header-timeout: 500ms, idle-timeout: 60s}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = Raw::open(&gateway);
    client.headers(1, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
    client.frame(PING, 0, 0, &[0; 8]);
    std::thread::sleep(Duration::from_millis(1500));
    client.headers(3, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
}
