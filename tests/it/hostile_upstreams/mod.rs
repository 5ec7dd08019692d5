//! Upstreams that send invalid, endless or unfinished responses.
//!
//! Floods are finite. Each case harms its own request only: meanwhile the gateway serves others, and its memory stays bounded.

mod http1;
mod http2;

use std::fmt::Write;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::support::client::{Connection, Response};
use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// Memory in KiB that all cases of a test together may leave with the gateway.
const MEMORY: usize = 48 * 1024;

/// Bytes of a flood that is stopped by closing the connection.
const FLOOD: usize = 64 * 1024 * 1024;

/// An upstream and what is wrong with it.
struct Hostile {
    name: &'static str,
    upstream: Upstream,
    /// Connections that were closed in the middle of a flood.
    stopped: Option<Arc<AtomicUsize>>,
}

impl Hostile {
    fn new(name: &'static str, upstream: Upstream) -> Self {
        Self { name, upstream, stopped: None }
    }
}

/// Sends a `GET` and a `POST` that accept trailers to each upstream, and calls `check` with the responses. `None` is a connection that closed
/// before a response.
fn each(http2: &str, cases: &[Hostile], check: impl Fn(&str, Option<Response>)) {
    each_within(1000, http2, cases, check);
}

/// Does the same with a response timeout of `timeout_ms`.
fn each_within(timeout_ms: u32, http2: &str, cases: &[Hostile], check: impl Fn(&str, Option<Response>)) {
    let healthy = Upstream::ok("healthy");
    let mut routes = format!("routes:\n- {{id: healthy, uri: '{}', predicates: [Path=/healthy]}}\n", healthy.uri());
    for (n, case) in cases.iter().enumerate() {
        writeln!(
            routes,
            "- {{id: r{n}, uri: '{}', http2: {http2}, predicates: [Path=/{n}], metadata: {{response-timeout: {timeout_ms}}}}}",
            case.upstream.uri()
        )
        .unwrap();
    }
    let gateway = Gateway::start(&format!("httpclient: {{read-timeout: {timeout_ms}ms}}\n{routes}"));
    assert_eq!(gateway.get("/healthy").status, 200);
    let before = memory(gateway.pid());
    for (n, case) in cases.iter().enumerate() {
        for (method, body) in [("GET", &b""[..]), ("POST", b"body")] {
            let address = gateway.address;
            let asking = std::thread::spawn(move || {
                Connection::open(address).try_request(method, &format!("/{n}"), &[("TE", "trailers")], body)
            });
            assert_eq!(gateway.get("/healthy").text(), "healthy", "beside {}", case.name);
            check(&format!("{method}: {}", case.name), asking.join().unwrap());
        }
        if let Some(stopped) = &case.stopped {
            crate::support::eventually(case.name, || stopped.load(SeqCst) > 0);
        }
    }
    assert_eq!(gateway.get("/healthy").text(), "healthy");
    let grown = memory(gateway.pid()).saturating_sub(before);
    assert!(grown < MEMORY, "the gateway grew by {grown} KiB");
}

/// Fails unless the response is a 502 or 504.
fn is_refused(case: &str, response: Option<Response>) {
    let status = response.map(|response| response.status);
    assert!(matches!(status, Some(502 | 504)), "{case}: {status:?}");
}

/// Fails if the client takes the response for complete.
fn is_not_whole(case: &str, response: Option<Response>) {
    let seen = response.filter(|response| response.complete && ![502, 504].contains(&response.status));
    assert_eq!(seen, None, "{case}");
}

/// Fails unless the response is the upstream's, whole.
fn is_whole(case: &str, response: Option<Response>) {
    let seen = response.map(|response| (response.status, response.text(), response.complete));
    assert_eq!(seen, Some((200, "ok".to_owned(), true)), "{case}");
}

/// Writes `unit` again and again. Counts the connection if it is closed before the end.
fn flood(stream: &mut TcpStream, unit: &[u8], stopped: &AtomicUsize) {
    let block = unit.repeat((64 * 1024 / unit.len()).max(1));
    for _ in 0..FLOOD / block.len() {
        if stream.write_all(&block).is_err() {
            stopped.fetch_add(1, SeqCst);
            return;
        }
    }
}

/// Resident memory of a process in KiB.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
