//! Counters of client connections.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Counters of client connections and TLS handshakes, over all workers.
#[derive(Debug, Default)]
pub struct ConnectionStats {
    opened: AtomicU64,
    closed: AtomicU64,
    refused: AtomicU64,
    handshakes: AtomicU64,
    failed_handshakes: AtomicU64,
}

impl ConnectionStats {
    /// Counts a connection that is served from now on.
    pub fn count_opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    /// Counts the end of a connection.
    pub fn count_closed(&self) {
        self.closed.fetch_add(1, Relaxed);
    }

    /// Counts a connection that was closed at once because its client has too many.
    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Counts a TLS handshake.
    pub fn count_handshake(&self, is_complete: bool) {
        if is_complete { &self.handshakes } else { &self.failed_handshakes }.fetch_add(1, Relaxed);
    }

    /// Returns the number of connections opened since the start.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// Returns the number of open connections, tunnels included.
    #[must_use]
    pub fn open(&self) -> u64 {
        // The end of a connection is counted after its start, so this order never underflows by much.
        let closed = self.closed.load(Relaxed);
        self.opened.load(Relaxed).saturating_sub(closed)
    }

    /// Returns the number of connections refused since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Returns the numbers of completed and failed TLS handshakes.
    #[must_use]
    pub fn handshakes(&self) -> (u64, u64) {
        (self.handshakes.load(Relaxed), self.failed_handshakes.load(Relaxed))
    }
}
