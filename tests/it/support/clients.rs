//! Clients that send requests over restarts: on kept and on fresh connections, over HTTP/1.1 and HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::{Connection, get};
use super::eventually;
use super::upstream::{Upstream, response};
use crate::http2::raw::{DATA, END_STREAM, GOAWAY, HEADERS, ORDINARY, PING, RST_STREAM, Raw, SETTINGS, WINDOW_UPDATE};

/// Flag of a frame that acknowledges another.
const ACK: u8 = 1;
/// Pause of a client after a response.
const PAUSE: Duration = Duration::from_millis(2);
/// Window of a connection of HTTP/2, for the responses of all its streams.
const WINDOW: u32 = 1 << 30;
/// Streams after which a client opens another connection of HTTP/2.
const STREAMS: u32 = 1000;

/// Sends requests to an address until the test ends. An error is the request that failed.
type Client = fn(SocketAddr, &Progress) -> Result<(), String>;

/// Running clients. None of them sends a request again.
pub struct Clients {
    ended: Arc<AtomicBool>,
    answered: Vec<Arc<AtomicUsize>>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Clients {
    /// Starts `count` clients of each of the four kinds.
    pub fn start(address: SocketAddr, count: usize) -> Self {
        let kinds: [Client; 4] = [
            |address, progress| http1(address, progress, true),
            |address, progress| http1(address, progress, false),
            |address, progress| http2(address, progress, STREAMS),
            |address, progress| http2(address, progress, 1),
        ];
        let (ended, mut answered, mut threads) = (Arc::new(AtomicBool::new(false)), Vec::new(), Vec::new());
        for run in kinds.into_iter().flat_map(|kind| std::iter::repeat_n(kind, count)) {
            let progress = Progress { ended: Arc::clone(&ended), answered: Arc::default() };
            answered.push(Arc::clone(&progress.answered));
            threads.push(std::thread::spawn(move || run(address, &progress)));
        }
        Self { ended, answered, threads }
    }

    /// Waits until every client has `count` more responses.
    #[track_caller]
    pub fn more(&self, count: usize) {
        let goals: Vec<_> = self.answered.iter().map(|answered| answered.load(SeqCst) + count).collect();
        eventually("every client gets responses", || {
            let is_failed = self.threads.iter().any(JoinHandle::is_finished);
            is_failed || self.answered.iter().zip(&goals).all(|(answered, goal)| answered.load(SeqCst) >= *goal)
        });
    }

    /// Ends the clients. Returns the number of responses.
    #[track_caller]
    pub fn stop(self) -> usize {
        self.ended.store(true, SeqCst);
        let failures: Vec<_> = self.threads.into_iter().filter_map(|thread| thread.join().unwrap().err()).collect();
        assert!(failures.is_empty(), "{failures:?}");
        self.answered.iter().map(|answered| answered.load(SeqCst)).sum()
    }
}

/// Upstream of gateways that are restarted, whose `/slow` takes some time.
pub struct Slow {
    /// The upstream.
    pub upstream: Upstream,
    arrived: Arc<AtomicUsize>,
    restarts: usize,
    clients: usize,
}

impl Slow {
    /// Starts the upstream. `TOLLGATE_RESTARTS` asks for so many restarts, with more clients and a `/slow` of six seconds.
    pub fn start() -> Self {
        let restarts = std::env::var("TOLLGATE_RESTARTS").ok().map(|number| number.parse().unwrap());
        let (clients, time) = if restarts.is_some() { (8, 6_000) } else { (2, 300) };
        let arrived = Arc::<AtomicUsize>::default();
        let arriving = Arc::clone(&arrived);
        let upstream = Upstream::start(move |request| {
            if request.target() == "/slow" {
                arriving.fetch_add(1, SeqCst);
                std::thread::sleep(Duration::from_millis(time));
            }
            response(200, &[], b"hello")
        });
        Self { upstream, arrived, restarts: restarts.unwrap_or(3), clients }
    }

    /// Calls `restart` several times, each with a slow request in flight, while clients send requests to `address`. Every
    /// request gets its response.
    #[track_caller]
    pub fn over_restarts(&self, address: SocketAddr, mut restart: impl FnMut()) {
        let clients = Clients::start(address, self.clients);
        for number in 1..=self.restarts {
            clients.more(3);
            let slow = std::thread::spawn(move || get(address, "/slow"));
            eventually("the slow request arrives", || self.arrived.load(SeqCst) == number);
            restart();
            clients.more(3);
            let response = slow.join().unwrap();
            assert_eq!((response.status, response.complete), (200, true), "the request in flight");
        }
        println!("{} responses over {} restarts", clients.stop(), self.restarts);
    }
}

struct Progress {
    ended: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Progress {
    /// Counts a response. Returns true if the client goes on.
    fn goes_on(&self) -> bool {
        self.answered.fetch_add(1, SeqCst);
        std::thread::sleep(PAUSE);
        !self.ended.load(SeqCst)
    }
}

fn open(address: SocketAddr, kind: &str) -> Result<Connection, String> {
    Connection::try_open(address).map_err(|error| format!("{kind}: {error}"))
}

fn http1(address: SocketAddr, progress: &Progress, keeps: bool) -> Result<(), String> {
    let mut kept = None;
    loop {
        let mut client = match kept.take() {
            Some(client) => client,
            None => open(address, "HTTP/1.1")?,
        };
        let response = client.try_request("GET", "/x", &[], b"");
        let response = response.ok_or_else(|| format!("HTTP/1.1: no response, kept: {keeps}"))?;
        if response.status != 200 || !response.complete {
            return Err(format!("HTTP/1.1: {response:?}"));
        }
        if !progress.goes_on() {
            return Ok(());
        }
        if keeps && response.header("connection") != Some("close") {
            kept = Some(client);
        }
    }
}

fn http2(address: SocketAddr, progress: &Progress, streams: u32) -> Result<(), String> {
    loop {
        let mut client = Raw(open(address, "HTTP/2")?);
        client.0.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.frame(SETTINGS, 0, 0, &[]);
        client.frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        let mut is_leaving = false;
        for stream in (0..streams).map(|number| 2 * number + 1) {
            client.headers(stream, END_STREAM, &ORDINARY);
            loop {
                match client.next() {
                    (GOAWAY, _, payload) if payload.is_empty() => return Err("HTTP/2: connection closed".to_owned()),
                    (GOAWAY, _, payload) => {
                        let last = u32::from_be_bytes(payload[..4].try_into().unwrap());
                        if last < stream {
                            return Err(format!("HTTP/2: stream {stream} after the last one, {last}"));
                        }
                        is_leaving = true;
                    }
                    (PING, 0, payload) => client.frame(PING, ACK, 0, &payload),
                    (RST_STREAM, ..) => return Err("HTTP/2: stream reset".to_owned()),
                    (HEADERS | DATA, flags, _) if flags & END_STREAM != 0 => break,
                    _ => {}
                }
            }
            if !progress.goes_on() {
                return Ok(());
            }
            if is_leaving {
                break;
            }
        }
    }
}
