//! Admission of client connections: a limit for all together, and one for each client.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::http::handler::ConnectionStats;
use crate::server::clients::{ClientConnection, ClientStreamGuard, Clients};
use crate::server::drain::Connections;

/// Interval in which a full gateway looks for an idle connection to close.
const EVICT_EVERY: Duration = Duration::from_millis(50);
/// Time for which a connection is idle before it may be closed for another one: a request that is on its way arrives.
const MIN_IDLE: Duration = Duration::from_millis(100);
/// Minimum interval between two log lines about refused connections.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Admission of client connections, shared by all workers.
#[derive(Clone, Debug)]
pub struct Gate {
    permits: Arc<Semaphore>,
    clients: Arc<Clients>,
    workers: Arc<[Arc<Connections>]>,
    stats: Arc<ConnectionStats>,
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
        Self { permits, clients: Arc::default(), workers: (0..workers).map(|_| Arc::default()).collect(), stats }
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
