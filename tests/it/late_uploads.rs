//! Uploads that go on after their response.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// `httpclient.read-timeout` of these tests, and the shortest time in which it may pass.
const TIMEOUT: (&str, Duration) = ("500ms", Duration::from_millis(400));

/// Rest of a request whose response is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// The client sends nothing more.
    Silent,
    /// The client sends a byte at a time.
    Trickle,
    /// The client sends as much as it can, and the upstream reads nothing.
    Unread,
}

/// Starts an upstream that responds to a `POST` before it has its body, of which it then reads the rest if `reads`.
/// Otherwise it waits until the sender of `end` is dropped.
fn early(reads: bool, end: Receiver<()>) -> Upstream {
    let end = Mutex::new(end);
    Upstream::scripted(move |stream, _| {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            read_byte(stream, &mut read);
        }
        let is_upload = read.starts_with(b"POST");
        while is_upload && !read.ends_with(b"hello") {
            read_byte(stream, &mut read);
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        match is_upload && !reads {
            true => drop(end.lock().unwrap().recv()),
            false => drop(std::io::copy(stream, &mut std::io::sink())),
        }
    })
}

fn read_byte(stream: &mut TcpStream, read: &mut Vec<u8>) {
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    read.push(byte[0]);
}

/// Sends the rest of a request until that fails. Returns the connection, which a silent client keeps open.
fn send(mut client: Connection, rest: Rest) -> Connection {
    let part = if rest == Rest::Unread { "x".repeat(60_000) } else { "x".to_owned() };
    let chunk = format!("{:x}\r\n{part}\r\n", part.len());
    while rest != Rest::Silent && client.try_send(&chunk).is_ok() {
        if rest == Rest::Trickle {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    client
}

/// Starts a gateway with one connection to `upstream`, and sends a `POST` whose response comes before the rest of its body.
fn late(upstream: &Upstream, read_timeout: &str) -> (Gateway, Connection) {
    let gateway = Gateway::start(&format!(
        "httpclient: {{read-timeout: {read_timeout}, pool: {{type: fixed, max-connections: 1, acquire-timeout: 30s}}}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    assert!(client.until(b"ok").ends_with(b"ok"));
    (gateway, client)
}

/// Number of the kernel's sockets that are connected to `remote` (proc_pid_net(5)).
#[cfg(target_os = "linux")]
fn established(remote: std::net::SocketAddr) -> usize {
    let port = format!(":{:04X}", remote.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields[2].ends_with(&port) && fields[3] == "01").count()
}

#[cfg(target_os = "linux")]
#[test]
fn the_rest_of_an_upload_ends_at_the_read_timeout() {
    for rest in [Rest::Silent, Rest::Trickle, Rest::Unread] {
        let (end, ended) = channel();
        let upstream = early(rest != Rest::Unread, ended);
        let start = Instant::now();
        let (gateway, client) = late(&upstream, TIMEOUT.0);
        let sending = std::thread::spawn(move || send(client, rest));
        eventually("the connection is closed", || established(upstream.address) == 0);
        assert!(start.elapsed() >= TIMEOUT.1, "{rest:?}: {:?}", start.elapsed());
        drop((end, gateway));
        drop(sending.join().unwrap());
    }
}

#[test]
fn the_rest_of_an_upload_gives_its_place_to_a_request_that_waits() {
    for rest in [Rest::Silent, Rest::Trickle, Rest::Unread] {
        let (end, ended) = channel();
        let upstream = early(rest != Rest::Unread, ended);
        let (gateway, client) = late(&upstream, "1h");
        let sending = std::thread::spawn(move || send(client, rest));
        assert_eq!(gateway.get("/next").status, 200, "{rest:?}");
        assert_eq!(upstream.connections(), 2, "{rest:?}: the first connection takes no further request");
        drop((end, gateway));
        drop(sending.join().unwrap());
    }
}

#[test]
fn the_connection_of_an_upload_that_ends_after_its_response_is_used_again() {
    let (read_all, was_read) = channel();
    let upstream = Upstream::scripted(move |stream, _| {
        for _ in 0..2 {
            let mut read = Vec::new();
            while !read.ends_with(b"hello") {
                read_byte(stream, &mut read);
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            while !read.ends_with(b"\r\n0\r\n\r\n") {
                read_byte(stream, &mut read);
            }
            let _ = read_all.send(());
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for _ in 0..2 {
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        assert!(client.until(b"ok").ends_with(b"ok"));
        client.send("0\r\n\r\n");
        was_read.recv().unwrap();
    }
    assert_eq!(upstream.connections(), 1);
}
