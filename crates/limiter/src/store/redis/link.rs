//! One place for a connection.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;

use super::batch::Batches;

/// Calls in a row without an answer after which a connection is replaced: it may be half open, which no error tells.
const TIMEOUTS_TO_REPLACE: u32 = 3;

/// A place for one connection. The supervisor fills it; whoever finds the connection broken empties it.
#[derive(Default)]
pub(super) struct Link {
    live: Mutex<Option<Live>>,
    timeouts: AtomicU32,
    emptied: Notify,
}

/// A connection and its number, which tells it from the one that was here before.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) number: u64,
    /// Where decisions are handed in, if they go out together.
    pub(super) batches: Option<Batches>,
}

// === impl Link ===

impl Link {
    /// The connection that is here, if one is. Clones of it share one socket.
    #[inline]
    pub(super) fn get(&self) -> Option<Live> {
        self.live.lock().clone()
    }

    pub(super) fn is_live(&self) -> bool {
        self.live.lock().is_some()
    }

    pub(super) fn fill(&self, live: Live) {
        self.timeouts.store(0, Ordering::Relaxed);
        *self.live.lock() = Some(live);
    }

    /// Takes connection `number` away if it is still here, and wakes the supervisor. Returns whether it was.
    pub(super) fn drop_connection(&self, number: u64) -> bool {
        let mut live = self.live.lock();
        let was_here = live.as_ref().is_some_and(|live| live.number == number);
        if was_here {
            *live = None;
            self.emptied.notify_one();
        }
        was_here
    }

    /// Waits until the connection is gone.
    pub(super) async fn emptied(&self) {
        while self.is_live() {
            self.emptied.notified().await;
        }
    }

    #[inline]
    pub(super) fn answered(&self) {
        if self.timeouts.load(Ordering::Relaxed) != 0 {
            self.timeouts.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a call that connection `number` did not answer in time; returns whether there were too many in a row.
    /// What was sent over a connection before says nothing of the present one.
    pub(super) fn timed_out(&self, number: u64) -> bool {
        let is_present = self.live.lock().as_ref().is_some_and(|live| live.number == number);
        is_present && self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_TO_REPLACE
    }
}
