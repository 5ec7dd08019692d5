//! Draining of client connections: each one is notified twice, then the worker waits until all are closed.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

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
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
    open: usize,
    all_closed: Option<Waker>,
}

/// One open connection or tunnel, counted until dropped.
#[derive(Debug)]
pub struct OpenConnection {
    connections: Arc<Connections>,
    slot: usize,
}

impl Connections {
    /// Counts a new connection.
    #[must_use]
    pub fn open(self: &Arc<Self>) -> OpenConnection {
        let mut slots = self.slots.lock();
        slots.open += 1;
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.wakers.push(None);
            slots.wakers.len() - 1
        });
        OpenConnection { connections: Arc::clone(self), slot }
    }

    /// Enters `stage` and wakes every connection.
    pub fn enter(&self, stage: DrainStage) {
        self.stage.store(stage as u8, Relaxed);
        for waker in self.slots.lock().wakers.iter().flatten() {
            waker.wake_by_ref();
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
        self.slots.lock().open
    }

    /// Waits until no connection is open.
    pub async fn closed(&self) {
        poll_fn(|cx| {
            let mut slots = self.slots.lock();
            if slots.open == 0 {
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
        if let Some(waker) = self.connections.slots.lock().wakers.get_mut(self.slot) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Returns the current stage.
    #[must_use]
    pub fn stage(&self) -> DrainStage {
        self.connections.stage()
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut slots = self.connections.slots.lock();
        if let Some(waker) = slots.wakers.get_mut(self.slot) {
            *waker = None;
        }
        slots.free.push(self.slot);
        slots.open -= 1;
        if slots.open == 0
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
        drop(connections.open());
        let _again = connections.open();
        assert_eq!(connections.slots.lock().wakers.len(), 1);
    }
}
