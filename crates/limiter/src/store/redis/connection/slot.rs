//! Slot of one connection.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use super::batcher::Batcher;

/// Consecutive timeouts after which a connection is replaced: it may be half open, which no error reports.
const TIMEOUTS_TO_REPLACE: u32 = 3;

/// A connection that lived this long was usable, and reconnecting starts without a pause. Servers and proxies that close
/// idle connections keep them for longer.
pub(crate) const STABLE_AFTER: Duration = Duration::from_millis(250);

/// Slot of one connection. The supervisor fills it; a call that finds the connection broken empties it.
pub(crate) struct ConnectionSlot {
    state: Mutex<SlotState>,
    timeouts: AtomicU32,
    removed: Notify,
}

/// State of a slot.
enum SlotState {
    Live(LiveConnection),
    /// The first attempt to connect is in progress, or the first after a stable connection ended: calls wait for it.
    Connecting,
    /// Calls fail immediately.
    Down,
}

/// A connection and its id, which distinguishes it from earlier connections in the slot.
#[derive(Clone)]
pub(crate) struct LiveConnection {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) id: u64,
    /// Batcher of the connection, if decisions are sent in batches.
    pub(crate) batcher: Option<Batcher>,
    /// True if the driver reports the end of the stream (RESP3).
    pub(crate) reports_end: bool,
    pub(crate) since: Instant,
}

impl ConnectionSlot {
    /// Creates a slot without a connection. `waits`: calls wait for the first attempt to connect.
    pub(crate) fn new(waits: bool) -> Self {
        let state = if waits { SlotState::Connecting } else { SlotState::Down };
        Self { state: Mutex::new(state), timeouts: AtomicU32::new(0), removed: Notify::new() }
    }

    /// Clone of the live connection, if any; clones share one socket.
    #[inline]
    pub(crate) fn get(&self) -> Option<LiveConnection> {
        match &*self.state.lock() {
            SlotState::Live(live) => Some(live.clone()),
            SlotState::Connecting | SlotState::Down => None,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(&*self.state.lock(), SlotState::Live(live) if !live.has_ended())
    }

    /// Returns true if calls wait for the attempt to connect that is in progress.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(&*self.state.lock(), SlotState::Connecting)
    }

    pub(crate) fn set(&self, live: LiveConnection) {
        self.timeouts.store(0, Ordering::Relaxed);
        *self.state.lock() = SlotState::Live(live);
    }

    /// Makes calls fail immediately, after a failed attempt to connect or for good.
    pub(crate) fn set_down(&self) {
        *self.state.lock() = SlotState::Down;
    }

    /// Removes the connection `id` if it is still present, and wakes the supervisor. Returns true if it was present.
    /// If its stream `ended`, calls wait for the next connection, unless the server closes each connection early.
    pub(crate) fn remove(&self, id: u64, ended: bool) -> bool {
        let mut state = self.state.lock();
        let SlotState::Live(live) = &*state else { return false };
        if live.id != id {
            return false;
        }
        let reconnects = ended && live.since.elapsed() >= STABLE_AFTER;
        *state = if reconnects { SlotState::Connecting } else { SlotState::Down };
        self.removed.notify_one();
        true
    }

    /// Waits until the connection is removed.
    pub(crate) async fn wait_removed(&self) {
        while matches!(&*self.state.lock(), SlotState::Live(_)) {
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
        let is_present = matches!(&*self.state.lock(), SlotState::Live(live) if live.id == id);
        is_present && self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_TO_REPLACE
    }
}

impl LiveConnection {
    /// Returns true if the stream has ended, so that a call would not be written.
    ///
    /// Under RESP3 the driver reports the end. Under RESP2 a command is offered to the driver and withdrawn at once: the
    /// driver skips a withdrawn command, and takes none after its end.
    pub(crate) fn has_ended(&self) -> bool {
        if self.reports_end {
            return false;
        }
        let (mut connection, ping) = (self.connection.clone(), redis::cmd("PING"));
        let offer = pin!(connection.send_packed_command(&ping));
        matches!(offer.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err(_)))
    }
}
