//! Settings of locks.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::retry::Retry;

/// Settings of locks.
#[derive(Clone, Debug)]
pub struct LockSettings {
    /// Expiry of a lock, in case its gateway dies. It must exceed two round trips; the default is a second.
    pub ttl: Duration,
    /// Retries while another request holds the lock.
    pub retry: Retry,
    /// Concurrent decisions. Each has a connection of its own, since `WATCH` belongs to a connection. The default is 8.
    pub connections: NonZeroUsize,
}

impl Default for LockSettings {
    fn default() -> Self {
        let connections = NonZeroUsize::MIN.saturating_add(7);
        Self { ttl: Duration::from_secs(1), retry: Retry::default(), connections }
    }
}
