//! Conformance to RFC 9113, section by section, over cleartext and TLS. Every case writes raw frames on a connection of
//! its own and states the frame that must follow. Where `h2` says `PROTOCOL_ERROR` although the RFC names another code,
//! both are accepted.

mod definitions;
mod framing;
mod requests;

use super::client::{Client, Transport};
use super::raw::block;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ES: u8 = 1;
const EH: u8 = 4;
const PADDED: u8 = 8;
const PRIO: u8 = 0x20;

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const REFUSED_STREAM: u32 = 7;
const COMPRESSION_ERROR: u32 = 9;

/// Outcome that a case requires.
#[derive(Debug)]
enum Outcome {
    /// A response with this status on stream 1.
    Status(u16),
    /// The connection goes on: a PING is answered.
    Alive,
    /// The stream ends with one of these codes, or the connection does.
    Stream(&'static [u32]),
    /// The connection ends, with one of these codes if there is a GOAWAY.
    Connection(&'static [u32]),
}

use Outcome::{Alive, Connection, Status, Stream};

/// Frames as (type, flags, stream, payload).
type Frames = Vec<(u8, u8, u32, Vec<u8>)>;

struct Case {
    section: &'static str,
    name: &'static str,
    frames: Frames,
    outcome: Outcome,
}

fn fields(method: &'static str) -> [(&'static str, &'static str); 4] {
    [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", "/x")]
}

fn get() -> Vec<u8> {
    block(&fields("GET"))
}

fn post(extra: &[(&str, &str)]) -> Vec<u8> {
    [block(&fields("POST")), block(extra)].concat()
}

/// `GET` on stream 1 with these fields behind the pseudo-header fields.
fn with(extra: &[(&str, &str)]) -> Frames {
    vec![(HEADERS, ES | EH, 1, [get(), block(extra)].concat())]
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

fn word(value: u32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn case(section: &'static str, name: &'static str, frames: Frames, outcome: Outcome) -> Case {
    Case { section, name, frames, outcome }
}

fn run(transport: &Transport, cases: Vec<Case>) {
    let mut failed = Vec::new();
    for Case { section, name, frames, outcome } in cases {
        let mut client = Client::open(transport);
        for (kind, flags, stream, payload) in frames {
            client.frame(kind, flags, stream, &payload);
        }
        let found = match &outcome {
            Status(status) => client.status(1).filter(|found| found == status).map(|_| ()),
            Alive => client.answers_ping().then_some(()),
            Stream(codes) => client.end(false).filter(|code| code.is_none_or(|code| codes.contains(&code))).map(|_| ()),
            Connection(codes) => {
                client.end(true).filter(|code| code.is_none_or(|code| codes.contains(&code))).map(|_| ())
            }
        };
        if found.is_none() {
            failed.push(format!("§{section} {name}: not {outcome:?}, but {:x?}", client.seen));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Starts an upstream that responds to everything, after the request.
fn upstream() -> Upstream {
    Upstream::scripted(|stream, seen| {
        while let Some(request) = read_request(stream) {
            seen(request);
            let _ = std::io::Write::write_all(stream, &response(200, &[], b"ok"));
        }
    })
}

fn all() -> Vec<Case> {
    [framing::framing(), definitions::definitions(), requests::requests()].into_iter().flatten().collect()
}

#[test]
fn over_cleartext() {
    let upstream = upstream();
    let gateway = Gateway::to(&upstream.uri());
    run(&Transport::Clear(gateway.address), all());
    assert_eq!(gateway.get("/next").status, 200);
}

#[test]
fn over_tls() {
    let upstream = upstream();
    let (gateway, transport) = Transport::tls(&upstream.uri());
    run(&transport, all());
    drop(gateway);
}

#[test]
fn the_first_frame_is_settings() {
    let upstream = upstream();
    let gateway = Gateway::to(&upstream.uri());
    for (kind, flags, stream, payload) in [
        (PING, 0, 0, vec![0; 8]),
        (HEADERS, ES | EH, 1, get()),
        (WINDOW_UPDATE, 0, 0, word(1)),
        (SETTINGS, 1, 0, vec![]),
    ] {
        for byte_by_byte in [false, true] {
            let mut client = Client::without_settings(&Transport::Clear(gateway.address), byte_by_byte);
            client.frame(kind, flags, stream, &payload);
            assert_eq!(client.end(true), Some(Some(PROTOCOL_ERROR)), "frame {kind}: {:x?}", client.seen);
        }
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn the_server_sends_no_data_in_response_to_head() {
    let upstream = Upstream::ok("");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = Client::open(&Transport::Clear(gateway.address));
    // A local response, which has a body for other methods.
    client.frame(
        HEADERS,
        ES | EH,
        1,
        &block(&[(":method", "HEAD"), (":scheme", "http"), (":authority", "a"), (":path", "/a/../../b")]),
    );
    assert_eq!(client.status(1), Some(400));
    assert!(client.answers_ping());
    assert!(client.seen.iter().all(|(kind, _, _)| *kind != DATA), "{:x?}", client.seen);
}
