//! Draining of client connections: each one is notified twice, then the worker waits until all are closed.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::Instant;

/// Open connections and tunnels of one worker.
///
/// A connection reads the stage each time it is polled and is woken once per stage, so draining costs a request
/// nothing. (A cancellation token would be polled, and locked, each time.) The lock is taken when a connection opens
/// and closes, by its own worker.
#[derive(Debug, Default)]
pub struct Connections {
    stage: AtomicU8,
    slots: Mutex<Slots>,
}

/// Progress of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DrainStage {
    /// Not draining.
    Serving = 0,
    /// Each response announces that it is the last one of its connection. An idle connection stays open a little
    /// longer, because its client may already have sent a request.
    LastRequests = 1,
    /// Idle connections are closed; the others end after the response in flight.
    Closing = 2,
}

#[derive(Debug, Default)]
struct Slots {
    open: Slab<Slot>,
    /// Idle connections, the one that has been idle for the longest time first.
    idle: BTreeSet<(Instant, usize)>,
    all_closed: Option<Waker>,
}

#[derive(Debug, Default)]
struct Slot {
    waker: Option<Waker>,
    is_evicted: bool,
}

/// One open connection or tunnel, counted until dropped.
#[derive(Debug)]
pub struct OpenConnection {
    connections: Arc<Connections>,
    slot: usize,
    /// Time since which the connection is registered as idle.
    idle_since: Cell<Option<Instant>>,
}

impl Connections {
    /// Counts a new connection.
    #[must_use]
    pub fn open(self: &Arc<Self>) -> OpenConnection {
        let slot = self.slots.lock().open.insert(Slot::default());
        OpenConnection { connections: Arc::clone(self), slot, idle_since: Cell::new(None) }
    }

    /// Enters `stage` and wakes every connection.
    pub fn enter(&self, stage: DrainStage) {
        self.stage.store(stage as u8, Relaxed);
        for waker in self.slots.lock().open.iter().filter_map(|(_, slot)| slot.waker.as_ref()) {
            waker.wake_by_ref();
        }
    }

    /// Returns the time since which the longest idle connection is idle.
    #[must_use]
    pub fn idle_since(&self) -> Option<Instant> {
        self.slots.lock().idle.first().map(|(since, _)| *since)
    }

    /// Closes the connection that has been idle for the longest time.
    pub fn evict(&self) {
        let mut slots = self.slots.lock();
        if let Some((_, slot)) = slots.idle.pop_first()
            && let Some(slot) = slots.open.get_mut(slot)
        {
            slot.is_evicted = true;
            if let Some(waker) = &slot.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Returns the current stage.
    #[must_use]
    pub fn stage(&self) -> DrainStage {
        match self.stage.load(Relaxed) {
            0 => DrainStage::Serving,
            1 => DrainStage::LastRequests,
            _ => DrainStage::Closing,
        }
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.lock().open.len()
    }

    /// Waits until no connection is open.
    pub async fn closed(&self) {
        poll_fn(|cx| {
            let mut slots = self.slots.lock();
            if slots.open.is_empty() {
                return Poll::Ready(());
            }
            slots.all_closed = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl OpenConnection {
    /// Registers the current task to be woken at every new stage. A task keeps its waker, so one call is enough.
    pub fn watch(&self, cx: &Context<'_>) {
        if let Some(slot) = self.connections.slots.lock().open.get_mut(self.slot) {
            slot.waker = Some(cx.waker().clone());
        }
    }

    /// Registers whether the connection is idle. An idle connection is closed when the gateway is full.
    pub fn set_idle(&self, is_idle: bool) {
        if is_idle == self.idle_since.get().is_some() {
            return;
        }
        let mut slots = self.connections.slots.lock();
        if let Some(since) = self.idle_since.take() {
            slots.idle.remove(&(since, self.slot));
        }
        if is_idle {
            let now = Instant::now();
            slots.idle.insert((now, self.slot));
            self.idle_since.set(Some(now));
        }
    }

    /// Returns true if the connection is to be closed because the gateway is full. Checks idle connections only.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        self.idle_since.get().is_some()
            && self.connections.slots.lock().open.get(self.slot).is_some_and(|slot| slot.is_evicted)
    }

    /// Returns the connections of the worker.
    #[must_use]
    pub fn all(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Returns the current stage.
    #[must_use]
    pub fn stage(&self) -> DrainStage {
        self.connections.stage()
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.set_idle(false);
        let mut slots = self.connections.slots.lock();
        slots.open.try_remove(self.slot);
        if slots.open.is_empty()
            && let Some(waker) = slots.all_closed.take()
        {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn draining_wakes_each_connection_and_waits_for_all_of_them() {
        let connections = Arc::new(Connections::default());
        let local = tokio::task::LocalSet::new();
        for _ in 0..3 {
            let open = connections.open();
            local.spawn_local(async move {
                poll_fn(|cx| {
                    open.watch(cx);
                    if open.stage() == DrainStage::Closing { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            });
        }
        local
            .run_until(async {
                tokio::task::yield_now().await;
                assert_eq!(connections.count(), 3);
                connections.enter(DrainStage::Closing);
                connections.closed().await;
                assert_eq!(connections.count(), 0);
            })
            .await;
    }

    #[test]
    fn the_slot_of_a_closed_connection_is_reused() {
        let connections = Arc::new(Connections::default());
        let first = connections.open().slot;
        assert_eq!(connections.open().slot, first);
    }

    #[test]
    fn the_longest_idle_connection_is_evicted_first() {
        let connections = Arc::new(Connections::default());
        let [busy, first, second] = [(); 3].map(|()| connections.open());
        connections.evict();
        first.set_idle(true);
        second.set_idle(true);
        busy.set_idle(true);
        busy.set_idle(false);
        connections.evict();
        let evicted = || [&busy, &first, &second].map(OpenConnection::is_evicted);
        assert_eq!(evicted(), [false, true, false]);
        drop(first);
        connections.evict();
        assert_eq!([&busy, &second].map(OpenConnection::is_evicted), [false, true]);
        drop(second);
        assert!(!connections.open().is_evicted(), "a reused slot");
        assert_eq!(connections.idle_since(), None);
    }
}
