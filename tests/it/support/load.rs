//! Clients that send requests repeatedly over persistent connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{Connection, Response};
use super::eventually;

/// Running clients.
pub struct Load {
    ended: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Exchange>>>,
}

/// A request and its response.
#[derive(Debug)]
pub struct Exchange {
    /// Requested path.
    pub path: &'static str,
    /// Time of sending.
    pub sent: Instant,
    /// Time until the response.
    pub took: Duration,
    /// The response; `None` if the connection closed without one.
    pub answer: Option<Response>,
}

impl Load {
    /// Starts `clients` clients, spread over `addresses`. Each requests `paths` in turn, with `X-Key: k`, on one
    /// connection. It reconnects after `Connection: close`, and stops if the connection is refused.
    pub fn start(addresses: &[SocketAddr], clients: usize, paths: &'static [&'static str]) -> Self {
        Self::paced(addresses, clients, paths, Duration::ZERO)
    }

    /// The same with a pause after each response.
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

    /// Waits until `count` more requests have a response.
    #[track_caller]
    pub fn more(&self, count: usize) {
        let goal = self.answered.load(SeqCst) + count;
        eventually("requests continue", || self.answered.load(SeqCst) >= goal);
    }

    /// Lets every client finish its request; returns all exchanges.
    pub fn stop(self) -> Vec<Exchange> {
        self.ended.store(true, SeqCst);
        self.join()
    }

    /// Waits until connections are refused; returns all exchanges.
    pub fn join(self) -> Vec<Exchange> {
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

impl Exchange {
    /// Returns the status of the response, 0 if there is none.
    pub fn status(&self) -> u16 {
        self.answer.as_ref().filter(|answer| answer.complete).map_or(0, |answer| answer.status)
    }

    /// Field of the response.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.answer.as_ref()?.header(name)
    }
}

/// Counts `exchanges` by status; 0 stands for requests without a complete response.
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
