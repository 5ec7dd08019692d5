//! Admission of client connections: a limit for all together, and one for each client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::http::handler::ConnectionStats;
use crate::http::proxy_header::HeaderFailure;
use crate::server::clients::{ClientConnection, ClientStreamGuard, Clients};
use crate::server::drain::Connections;

/// Interval in which a full gateway looks for an idle connection to close.
const EVICT_EVERY: Duration = Duration::from_millis(50);
/// Time for which a connection is idle before it may be closed for another one: a request that is on its way arrives.
const MIN_IDLE: Duration = Duration::from_millis(100);
/// Minimum interval between two log lines about refused connections, and about the headers of one load balancer.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// Load balancers of which the time of the last line is kept.
const MAX_LOGGED: usize = 1024;

/// Admission of client connections, shared by all workers.
#[derive(Clone, Debug)]
pub struct Gate {
    permits: Arc<Semaphore>,
    clients: Arc<Clients>,
    workers: Arc<[Arc<Connections>]>,
    stats: Arc<ConnectionStats>,
    failed_headers: Arc<FailureLog>,
}

/// Limits of each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of HTTP/2 requests in progress, over all connections.
    pub streams: usize,
}

/// Place of one connection, given back when dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    _place: OwnedSemaphorePermit,
    /// `None` for a trusted proxy, which has no limit of its own.
    /// Connection of a client with limits, and the maximum number of its streams.
    client: Option<(ClientConnection, usize)>,
    stats: Arc<ConnectionStats>,
}

/// Connections refused because their client has too many.
#[derive(Debug, Default)]
pub(super) struct Refused {
    count: u64,
    logged: Option<Instant>,
}

impl Gate {
    /// Creates a gate for `max` connections, on `workers`. Connections are counted in `stats`.
    #[must_use]
    pub fn new(max: usize, workers: usize, stats: Arc<ConnectionStats>) -> Self {
        let permits = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        let workers = (0..workers).map(|_| Arc::default()).collect();
        Self { permits, clients: Arc::default(), workers, stats, failed_headers: Arc::default() }
    }

    /// Returns the connections of a worker, numbered from 0.
    #[must_use]
    pub fn connections(&self, worker: usize) -> Arc<Connections> {
        self.workers.get(worker).map(Arc::clone).unwrap_or_default()
    }

    /// Returns a place if one is free.
    pub(super) fn try_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Waits for a place. Closes the connection that has been idle for the longest time, [`MIN_IDLE`] at least, until a
    /// place is free.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Some(place) = self.try_place() {
                return Some(place);
            }
            let idle = self.workers.iter().filter_map(|worker| Some((worker.idle_since()?, worker)));
            if let Some((since, worker)) = idle.min_by_key(|(since, _)| *since)
                && since.elapsed() >= MIN_IDLE
            {
                worker.evict();
            }
            if let Ok(place) = timeout(EVICT_EVERY, Arc::clone(&self.permits).acquire_owned()).await {
                return place.ok();
            }
        }
    }

    /// Counts and logs a connection from the load balancer at `peer` that was closed for its PROXY header.
    pub(super) fn reject_header(&self, peer: IpAddr, failure: HeaderFailure) {
        self.stats.failed_headers[failure as usize].fetch_add(1, Relaxed);
        self.failed_headers.add(peer, failure);
    }

    /// Admits a connection to its place, unless its client has too many. `limits` is `None` for trusted proxies.
    pub(super) fn admit(
        &self,
        place: OwnedSemaphorePermit,
        ip: IpAddr,
        limits: Option<ClientLimits>,
    ) -> Option<Arc<ConnectionPermit>> {
        let client = match limits {
            Some(limits) => match self.clients.connect(ip, limits.connections) {
                Some(client) => Some((client, limits.streams)),
                None => {
                    self.stats.refused.fetch_add(1, Relaxed);
                    return None;
                }
            },
            None => None,
        };
        self.stats.opened.fetch_add(1, Relaxed);
        Some(Arc::new(ConnectionPermit { _place: place, client, stats: Arc::clone(&self.stats) }))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.stats.closed.fetch_add(1, Relaxed);
    }
}

impl ConnectionPermit {
    /// Counts a TLS handshake of the connection.
    pub(super) fn count_handshake(&self, is_complete: bool) {
        let counter = if is_complete { &self.stats.handshakes } else { &self.stats.failed_handshakes };
        counter.fetch_add(1, Relaxed);
    }

    /// Counts an HTTP/2 stream. Fails if the client has too many.
    pub(super) fn stream(&self) -> Result<Option<ClientStreamGuard>, TooManyStreams> {
        match &self.client {
            Some((client, max_streams)) => client.stream(*max_streams).map(Some).ok_or(TooManyStreams),
            None => Ok(None),
        }
    }
}

/// The client has too many streams in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyStreams;

impl Refused {
    /// Counts a refused connection. Logs the first one, and then the sum of each interval.
    pub(super) fn add(&mut self, client: IpAddr) {
        self.count += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            let count = std::mem::take(&mut self.count);
            tracing::warn!(%client, count, "client connections refused: `server.max-connections-per-client` reached");
            self.logged = Some(Instant::now());
        }
    }
}

/// Times of the log lines about failed headers, by load balancer.
#[derive(Debug, Default)]
struct FailureLog(Mutex<HashMap<IpAddr, LoggedFailures>>);

#[derive(Debug)]
struct LoggedFailures {
    at: Instant,
    /// Failures since then.
    count: u64,
}

impl FailureLog {
    /// Logs a failure of the load balancer at `peer`, with the number of those since its last line, unless that was written
    /// less than [`LOG_EVERY`] ago.
    fn add(&self, peer: IpAddr, failure: HeaderFailure) {
        if let Some(count) = self.count(peer, Instant::now()) {
            let reason = failure.as_str();
            tracing::warn!(%peer, reason, count, "client connections closed: no valid PROXY header");
        }
    }

    /// Counts a failure at `now`. Returns the number for a line if there is to be one.
    fn count(&self, peer: IpAddr, now: Instant) -> Option<u64> {
        let mut peers = self.0.lock();
        let is_recent = |logged: &LoggedFailures| now.duration_since(logged.at) < LOG_EVERY;
        match peers.get_mut(&peer) {
            Some(logged) if is_recent(logged) => {
                logged.count += 1;
                None
            }
            Some(logged) => {
                let count = std::mem::take(&mut logged.count);
                logged.at = now;
                Some(count + 1)
            }
            None => {
                if peers.len() >= MAX_LOGGED {
                    peers.retain(|_, logged| is_recent(logged));
                }
                let has_room = peers.len() < MAX_LOGGED;
                has_room.then(|| peers.insert(peer, LoggedFailures { at: now, count: 0 })).map(|_| 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_load_balancer_has_a_line_in_ten_seconds() {
        let log = FailureLog::default();
        let start = Instant::now();
        let count = |host: u32, secs: u64| log.count(Ipv4Addr::from(host).into(), start + Duration::from_secs(secs));
        assert_eq!([count(1, 0), count(1, 1), count(1, 9), count(2, 9)], [Some(1), None, None, Some(1)]);
        assert_eq!([count(1, 10), count(1, 11), count(1, 20)], [Some(3), None, Some(2)]);
    }

    #[test]
    fn a_flood_of_addresses_takes_bounded_memory() {
        let log = FailureLog::default();
        let start = Instant::now();
        let count = |host: u32, secs: u64| log.count(Ipv4Addr::from(host).into(), start + Duration::from_secs(secs));
        assert_eq!((0..5000).filter_map(|host| count(host, 0)).count(), MAX_LOGGED);
        assert_eq!((5000..9999).filter_map(|host| count(host, 10)).count(), MAX_LOGGED, "after the interval");
        assert!(log.0.lock().len() <= MAX_LOGGED);
    }
}
