//! Memory held for responses that clients do not read, measured as the growth of the gateway's resident memory. The pages of its
//! program are left out: the first request over HTTP/2 loads some.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};

use tollgate_test_support::Certificates;

use crate::http2::raw::{END_STREAM, ORDINARY, Raw, SETTINGS, WINDOW_UPDATE};
use crate::support::PATIENCE;
use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::raw_http2::{ACK, HEADERS, PING, RawHttp2};
use crate::support::upstream::{Upstream, read_request, write_until_stalled};
use crate::tls::{Tls, open, yaml};

const MIB: usize = 1024 * 1024;

/// Starts an upstream whose responses have `length` bytes. The channel gets one message for each response of which the
/// gateway accepts no further byte, or all.
fn upstream(length: usize) -> (Upstream, Receiver<()>) {
    let (stalled, stalling) = channel();
    let upstream = Upstream::scripted(move |stream, seen| {
        // Otherwise the kernel takes up to 4 MiB of each response.
        socket2::SockRef::from(&*stream).set_send_buffer_size(64 * 1024).unwrap();
        while let Some(request) = read_request(stream) {
            if request.target() == "/warm" {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                continue;
            }
            seen(request);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let written = write_until_stalled(stream, length);
            stalled.send(()).unwrap();
            let rest = (length - written) as u64;
            let _ = std::io::copy(&mut std::io::repeat(0).take(rest), stream);
        }
    });
    (upstream, stalling)
}

/// Starts a gateway that has served requests over both versions.
fn warm(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::to(&upstream.uri());
    for _ in 0..10 {
        assert_eq!(gateway.get("/warm").status, 200);
    }
    let mut client = Raw::open(&gateway);
    let fields = [ORDINARY[0], ORDINARY[1], ORDINARY[2], (":path", "/warm")];
    client.headers(1, END_STREAM, &fields);
    client.outcome();
    gateway
}

/// Opens an HTTP/2 connection with the largest windows, and sends `count` requests on it.
fn stream_requests(gateway: &Gateway, count: u32) -> Raw {
    let mut client = Raw::open(gateway);
    client.frame(SETTINGS, 0, 0, &[&4_u16.to_be_bytes()[..], &0x7fff_ffff_u32.to_be_bytes()].concat());
    client.frame(WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes());
    for stream in 0..count {
        client.headers(2 * stream + 1, END_STREAM, &ORDINARY);
    }
    client
}

#[track_caller]
fn assert_grown(gateway: &Gateway, before: usize, bound: usize) {
    let grown = gateway.allocated().saturating_sub(before);
    println!("{} KiB of at most {}", grown / 1024, bound / 1024);
    assert!(grown <= bound, "{grown} bytes of memory, {bound} allowed");
}

#[test]
fn a_hundred_unread_responses_take_twelve_mib() {
    let (upstream, stalling) = upstream(4 * MIB);
    let gateway = warm(&upstream);
    let before = gateway.allocated();
    let mut clients: Vec<Connection> = (0..100).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for _ in &clients {
        stalling.recv_timeout(PATIENCE).unwrap();
    }
    assert_grown(&gateway, before, 12 * MIB);
    for client in &mut clients[..3] {
        assert_eq!(client.response().unwrap().body.len(), 4 * MIB);
    }
}

/// The kernel spreads the clients unevenly over the workers, and the upstream's socket buffers have their ordinary size.
#[test]
fn a_hundred_unread_responses_take_twelve_mib_with_two_workers() {
    let (stalled, stalling) = channel();
    let upstream = Upstream::scripted(move |stream, _| {
        while let Some(request) = read_request(stream) {
            let length = if request.target() == "/warm" { 2 } else { 4 * MIB };
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = write_until_stalled(stream, length);
            let _ = stalled.send(());
        }
    });
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 2}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    for _ in 0..10 {
        gateway.get("/warm");
        stalling.recv_timeout(PATIENCE).unwrap();
    }
    let before = gateway.allocated();
    let mut clients: Vec<Connection> = (0..100).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for _ in &clients {
        stalling.recv_timeout(PATIENCE).unwrap();
    }
    assert_grown(&gateway, before, 12 * MIB);
}

#[test]
fn a_hundred_unread_streams_of_one_connection_take_eight_mib() {
    let (upstream, stalling) = upstream(MIB);
    let gateway = warm(&upstream);
    let before = gateway.allocated();
    let _client = stream_requests(&gateway, 100);
    for _ in 0..100 {
        stalling.recv_timeout(PATIENCE).unwrap();
    }
    assert_grown(&gateway, before, 8 * MIB);
}

#[test]
fn eight_connections_of_a_hundred_unread_streams_take_forty_mib() {
    let (upstream, stalling) = upstream(MIB);
    let gateway = warm(&upstream);
    let before = gateway.allocated();
    let clients: Vec<Raw> = (0..8).map(|_| stream_requests(&gateway, 100)).collect();
    for _ in 0..100 * clients.len() {
        stalling.recv_timeout(PATIENCE).unwrap();
    }
    assert_grown(&gateway, before, 40 * MIB);
}

#[test]
fn a_hundred_unread_responses_over_tls_take_twenty_mib() {
    let (upstream, stalling) = upstream(4 * MIB);
    let certificates = Certificates::new();
    let routes = format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]", upstream.uri());
    let gateway = Gateway::start(&yaml(&certificates, "", &routes));
    let ask = |path: &str| -> Tls {
        let mut client = open(gateway.address, &certificates);
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        client
    };
    for _ in 0..10 {
        ask("/warm").read_exact(&mut [0; 12]).unwrap();
    }
    let before = gateway.allocated();
    let mut clients: Vec<Tls> = (0..100).map(|_| ask("/x")).collect();
    for _ in &clients {
        stalling.recv_timeout(PATIENCE).unwrap();
    }
    // rustls holds up to 64 KB of encrypted records for each connection, beside what HTTP/1.1 holds without it.
    assert_grown(&gateway, before, 20 * MIB);
    let mut start = [0; 15];
    clients[99].read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
}

/// Response bodies of an HTTP/2 upstream, as far as the gateway's windows allow.
struct Bodies<'c, 'u> {
    connection: &'c mut RawHttp2<'u>,
    window: usize,
    /// Window and rest of each stream.
    streams: HashMap<u32, (usize, usize)>,
}

impl Bodies<'_, '_> {
    /// Sends what the windows allow. Returns the number of bytes.
    fn send(&mut self) -> usize {
        let mut sent = 0;
        for (stream, (window, rest)) in &mut self.streams {
            loop {
                let size = (*window).min(*rest).min(self.window).min(16_384);
                if size == 0 {
                    break;
                }
                (*window, *rest, self.window, sent) = (*window - size, *rest - size, self.window - size, sent + size);
                self.connection.data(*stream, u8::from(*rest == 0), &[0; 16_384][..size]);
            }
        }
        self.connection.flush();
        sent
    }
}

/// Starts an HTTP/2 upstream whose responses have `length` bytes. Once `requests` have arrived, the channel gets the
/// number of WINDOW_UPDATE frames and of unsent bytes each time the gateway has read everything and opens no window.
fn http2_upstream(length: usize, requests: usize) -> (Upstream, Receiver<(usize, usize)>) {
    let (stalled, stalling) = channel();
    let upstream = RawHttp2::upstream(move |connection| {
        let mut bodies = Bodies { connection, window: 65_535, streams: HashMap::new() };
        let (mut initial, mut updates, mut in_flight) = (65_535, 0, false);
        while let Some(frame) = bodies.connection.next() {
            let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap()) as usize;
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => {
                    let of_window = frame.payload.chunks_exact(6).find(|setting| setting[..2] == [0, 4]);
                    initial = of_window.map_or(initial, |setting| number(&setting[2..]));
                }
                WINDOW_UPDATE => {
                    updates += 1;
                    match bodies.streams.get_mut(&frame.stream) {
                        Some((window, _)) => *window += number(&frame.payload),
                        None if frame.stream == 0 => bodies.window += number(&frame.payload),
                        None => {}
                    }
                }
                HEADERS => {
                    bodies.connection.head(frame.stream, 0);
                    bodies.streams.insert(frame.stream, (initial, length));
                }
                PING if frame.flags & ACK != 0 => in_flight = false,
                _ => continue,
            }
            let sent = bodies.send();
            if bodies.streams.len() >= requests && !in_flight {
                if sent == 0 && frame.kind == PING {
                    let unsent = bodies.streams.values().map(|(_, rest)| rest).sum();
                    stalled.send((updates, unsent)).unwrap();
                } else {
                    // Its acknowledgement follows the reading of all that was sent.
                    bodies.connection.frame(PING, 0, 0, &[0; 8]);
                    in_flight = bodies.connection.flush();
                }
            }
        }
    });
    (upstream, stalling)
}

#[test]
fn a_hundred_unread_streams_of_an_http2_upstream_take_twelve_mib() {
    let (upstream, stalling) = http2_upstream(MIB, 100);
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', http2: prior-knowledge, predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let before = gateway.allocated();
    let _client = stream_requests(&gateway, 100);
    stalling.recv_timeout(PATIENCE).unwrap();
    // 64 KB of each stream. A slice of a read buffer keeps the whole buffer, so on a busy machine it is half as much again.
    assert_grown(&gateway, before, 12 * MIB);
}

#[test]
fn a_read_response_of_an_http2_upstream_takes_few_window_updates() {
    let (upstream, stalling) = http2_upstream(4 * MIB, 1);
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', http2: prior-knowledge, predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    assert_eq!(gateway.get("/x").body.len(), 4 * MIB);
    let (updates, _) = stalling.iter().find(|(_, unsent)| *unsent == 0).unwrap();
    println!("{updates} WINDOW_UPDATE frames for 4 MiB");
    assert!(updates <= 4 * MIB / (16 * 1024), "{updates}");
}
