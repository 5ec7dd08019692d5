//! Bodies are streamed, at the pace of the slower side.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::PATIENCE;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response, write_until_stalled};

/// More bytes than all buffers on the way hold.
const LARGE: usize = 200 * 1024 * 1024;
/// Memory growth allowed for one stalled peer, in bytes.
const BOUND: usize = 24 * 1024 * 1024;

/// Writes `count` zeros.
fn write_zeros(stream: &mut TcpStream, length: usize) {
    assert_eq!(std::io::copy(&mut std::io::repeat(0).take(length as u64), stream).unwrap(), length as u64);
}

fn once<T>(receiver: Receiver<T>) -> Mutex<Receiver<T>> {
    Mutex::new(receiver)
}

#[test]
fn response_bodies_are_streamed() {
    let (go, going) = channel::<()>();
    let going = once(going);
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let mut send = |bytes: &[u8]| stream.write_all(bytes).unwrap();
        send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in [b"1\r\na\r\n", b"1\r\nb\r\n", b"1\r\nc\r\n"] {
            going.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            send(piece);
        }
        going.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        send(b"0\r\n\r\n");
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.until(b"\r\n\r\n").starts_with(b"HTTP/1.1 200"), "the head came before any of the body");
    for piece in [b"1\r\na\r\n", b"1\r\nb\r\n", b"1\r\nc\r\n"] {
        go.send(()).unwrap();
        assert_eq!(client.take(6), piece);
    }
    go.send(()).unwrap();
    assert_eq!(client.take(5), b"0\r\n\r\n");
}

#[test]
fn request_bodies_are_streamed() {
    let (got, getting) = channel();
    let upstream = Upstream::scripted(move |stream, _| {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            bytes.push(byte[0]);
            if bytes.ends_with(b"\r\n\r\n") || b"abc".contains(&byte[0]) && bytes.ends_with(&[b'\n', byte[0]]) {
                got.send(byte[0]).unwrap();
            }
            if bytes.ends_with(b"0\r\n\r\n") {
                stream.write_all(&response(200, &[], b"done")).unwrap();
            }
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(getting.recv_timeout(PATIENCE).unwrap(), b'\n', "the head");
    for letter in ["a", "b", "c"] {
        client.send(format!("1\r\n{letter}\r\n"));
        assert_eq!(getting.recv_timeout(PATIENCE).unwrap(), letter.as_bytes()[0]);
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().unwrap().text(), "done");
}

#[test]
fn a_client_that_does_not_read_slows_the_upstream_in_bounded_memory() {
    let (stalled, stalling) = channel();
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").as_bytes()).unwrap();
        let written = write_until_stalled(stream, LARGE);
        stalled.send(written).unwrap();
        write_zeros(stream, LARGE - written);
    });
    let gateway = Gateway::to(&upstream.uri());
    let before = gateway.resident();
    let mut client = gateway.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let written = stalling.recv_timeout(PATIENCE).unwrap();
    assert!(written < LARGE, "the gateway accepted {written} bytes that are never read");
    let grown = gateway.resident().saturating_sub(before);
    assert!(grown < BOUND, "{grown} bytes of memory");
    client.until(b"\r\n\r\n");
    let mut left = LARGE;
    while left > 0 {
        let piece = client.take(left.min(4 * 1024 * 1024)).len();
        assert!(piece > 0, "{left} bytes are missing");
        left -= piece;
    }
    let grown = gateway.resident().saturating_sub(before);
    assert!(grown < BOUND, "{grown} bytes of memory");
}

#[test]
fn an_upstream_that_does_not_read_slows_the_client_in_bounded_memory() {
    let (go, going) = channel::<()>();
    let going = once(going);
    let upstream = Upstream::scripted(move |stream, _| {
        going.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let read = std::io::copy(&mut stream.take(LARGE as u64), &mut std::io::sink()).unwrap();
        stream.write_all(&response(200, &[], read.to_string().as_bytes())).unwrap();
    });
    let gateway = Gateway::to(&upstream.uri());
    let before = gateway.resident();
    let mut client = gateway.connect();
    client.send(format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n"));
    let mut stream = client.stream().try_clone().unwrap();
    let written = write_until_stalled(&mut stream, LARGE);
    assert!(written < LARGE, "the gateway accepted {written} bytes that are never read");
    let grown = gateway.resident().saturating_sub(before);
    assert!(grown < BOUND, "{grown} bytes of memory");
    go.send(()).unwrap();
    write_zeros(&mut stream, LARGE - written);
    assert_eq!(client.response().unwrap().text(), LARGE.to_string());
}

/// Spring has no limit for a response that pauses, and no other timeout acts as one.
#[test]
fn a_quiet_event_stream_of_a_spring_file_is_not_cut() {
    let upstream = Upstream::scripted(|stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let mut send = |bytes: &[u8]| stream.write_all(bytes).unwrap();
        send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
        // Only waiting can show it.
        std::thread::sleep(Duration::from_millis(1_500));
        send(b"data: 2\n\n");
    });
    let short =
        ["header", "idle", "body", "write", "tunnel-idle"].map(|name| format!(", {name}-timeout: 300ms")).concat();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1{short}}}\nspring.cloud.gateway.routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let events = gateway.get("/events");
    assert_eq!(events.text(), "data: 1\n\ndata: 2\n\n");
}
