//! Clients that ask again and again over kept connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{Connection, Response};
use super::eventually;

/// Clients at work.
pub struct Load {
    ended: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Exchange>>>,
}

/// A request and what came of it.
#[derive(Debug)]
pub struct Exchange {
    /// The path asked for.
    pub path: &'static str,
    /// When it was sent.
    pub sent: Instant,
    /// How long its answer took.
    pub took: Duration,
    /// Its answer; `None` if the connection ended without one.
    pub answer: Option<Response>,
}

impl Load {
    /// Starts `clients` of them, spread over `addresses`. Each asks for `paths` in turn, with `X-Key: k`, on one
    /// connection; a new one follows `Connection: close`, and a client whom nobody lets in any more goes home.
    pub fn start(addresses: &[SocketAddr], clients: usize, paths: &'static [&'static str]) -> Self {
        Self::paced(addresses, clients, paths, Duration::ZERO)
    }

    /// The same with a rest after each answer.
    pub fn paced(addresses: &[SocketAddr], clients: usize, paths: &'static [&'static str], rest: Duration) -> Self {
        let (ended, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients = (0..clients).map(|number| {
            let (ended, answered) = (Arc::clone(&ended), Arc::clone(&answered));
            let address = addresses[number % addresses.len()];
            std::thread::spawn(move || {
                let paths = paths[number % paths.len()..].iter().chain(paths.iter().cycle());
                ask(address, paths, rest, &ended, &answered)
            })
        });
        Self { clients: clients.collect(), ended, answered }
    }

    /// Waits until `count` more requests have been answered.
    #[track_caller]
    pub fn more(&self, count: usize) {
        let goal = self.answered.load(SeqCst) + count;
        eventually("the load goes on", || self.answered.load(SeqCst) >= goal);
    }

    /// Lets every client finish its request; returns all that were sent.
    pub fn stop(self) -> Vec<Exchange> {
        self.ended.store(true, SeqCst);
        self.join()
    }

    /// Waits until no client is let in any more; returns all that were sent.
    pub fn join(self) -> Vec<Exchange> {
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

impl Exchange {
    /// The status of the answer, 0 if there was none.
    pub fn status(&self) -> u16 {
        self.answer.as_ref().filter(|answer| answer.complete).map_or(0, |answer| answer.status)
    }

    /// A field of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.answer.as_ref()?.header(name)
    }
}

/// The statuses of `exchanges` with how often each came; 0 stands for requests without a complete answer.
pub fn statuses<'a>(exchanges: impl IntoIterator<Item = &'a Exchange>) -> Vec<(u16, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for exchange in exchanges {
        *counts.entry(exchange.status()).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

fn ask(
    address: SocketAddr,
    paths: impl Iterator<Item = &'static &'static str>,
    rest: Duration,
    ended: &AtomicBool,
    answered: &AtomicUsize,
) -> Vec<Exchange> {
    let mut exchanges = Vec::new();
    let mut kept = None;
    for path in paths {
        if ended.load(SeqCst) {
            break;
        }
        let Some(mut connection) = kept.take().or_else(|| Connection::try_open(address).ok()) else { break };
        let sent = Instant::now();
        let answer = connection.try_request("GET", path, &[("X-Key", "k")], b"");
        let closes = answer.as_ref().is_none_or(|answer| answer.header("connection") == Some("close"));
        exchanges.push(Exchange { path, sent, took: sent.elapsed(), answer });
        answered.fetch_add(1, SeqCst);
        std::thread::sleep(rest);
        if !closes {
            kept = Some(connection);
        }
    }
    exchanges
}
