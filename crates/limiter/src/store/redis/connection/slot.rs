//! Slot of one connection.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;

use super::batcher::Batcher;

/// Consecutive timeouts after which a connection is replaced: it may be half open, which no error reports.
const TIMEOUTS_TO_REPLACE: u32 = 3;

/// Slot of one connection. The supervisor fills it; a call that finds the connection broken empties it.
#[derive(Default)]
pub(crate) struct ConnectionSlot {
    live: Mutex<Option<LiveConnection>>,
    timeouts: AtomicU32,
    removed: Notify,
}

/// A connection and its id, which distinguishes it from earlier connections in the slot.
#[derive(Clone)]
pub(crate) struct LiveConnection {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) id: u64,
    /// Batcher of the connection, if decisions are sent in batches.
    pub(crate) batcher: Option<Batcher>,
}

impl ConnectionSlot {
    /// Clone of the live connection, if any; clones share one socket.
    #[inline]
    pub(crate) fn get(&self) -> Option<LiveConnection> {
        self.live.lock().clone()
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.lock().is_some()
    }

    pub(crate) fn set(&self, live: LiveConnection) {
        self.timeouts.store(0, Ordering::Relaxed);
        *self.live.lock() = Some(live);
    }

    /// Removes the connection `id` if it is still present, and wakes the supervisor. Returns true if it was present.
    pub(crate) fn remove(&self, id: u64) -> bool {
        let mut live = self.live.lock();
        let was_present = live.as_ref().is_some_and(|live| live.id == id);
        if was_present {
            *live = None;
            self.removed.notify_one();
        }
        was_present
    }

    /// Waits until the connection is removed.
    pub(crate) async fn wait_removed(&self) {
        while self.is_live() {
            self.removed.notified().await;
        }
    }

    /// Records a reply.
    #[inline]
    pub(crate) fn record_reply(&self) {
        if self.timeouts.load(Ordering::Relaxed) != 0 {
            self.timeouts.store(0, Ordering::Relaxed);
        }
    }

    /// Records a call that timed out on the connection `id`. Returns true after too many in a row. Calls over
    /// an earlier connection do not count against the present one.
    pub(crate) fn record_timeout(&self, id: u64) -> bool {
        let is_present = self.live.lock().as_ref().is_some_and(|live| live.id == id);
        is_present && self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_TO_REPLACE
    }
}
