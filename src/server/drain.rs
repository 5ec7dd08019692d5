//! Connections that are to end in good order: told twice, awaited until none is left.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// One worker's open connections and tunnels.
///
/// A connection looks at a flag each time it is polled and is woken once when the flag is raised, so draining costs a
/// request nothing (a cancellation token would be polled, and locked, every time). The lock is taken when a
/// connection opens and closes, by its own worker.
#[derive(Debug, Default)]
pub struct Connections {
    stage: AtomicU8,
    slots: Mutex<Slots>,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Serving.
    Open = 0,
    /// Every answer says that it is the connection's last. An idle connection stays open a little longer, for the
    /// request that its client may have sent already.
    LastRequests = 1,
    /// Idle connections are closed; the others end with the answer they are giving.
    Closing = 2,
}

#[derive(Debug, Default)]
struct Slots {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
    open: usize,
    all_closed: Option<Waker>,
}

/// One open connection, counted until dropped.
#[derive(Debug)]
pub struct Open {
    connections: Arc<Connections>,
    slot: usize,
}

impl Connections {
    /// Counts a connection in.
    #[must_use]
    pub fn open(self: &Arc<Self>) -> Open {
        let mut slots = self.slots.lock();
        slots.open += 1;
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.wakers.push(None);
            slots.wakers.len() - 1
        });
        Open { connections: Arc::clone(self), slot }
    }

    /// Goes on to `stage` and tells every connection.
    pub fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Relaxed);
        for waker in self.slots.lock().wakers.iter().flatten() {
            waker.wake_by_ref();
        }
    }

    /// How far the end has come.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            0 => Stage::Open,
            1 => Stage::LastRequests,
            _ => Stage::Closing,
        }
    }

    /// How many are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.lock().open
    }

    /// Waits until none is open.
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

impl Open {
    /// Asks to be woken at every new stage. A task keeps its waker, so once is enough.
    pub fn watch(&self, cx: &Context<'_>) {
        if let Some(waker) = self.connections.slots.lock().wakers.get_mut(self.slot) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// How far the end has come.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.connections.stage()
    }
}

impl Drop for Open {
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
                    if open.stage() == Stage::Closing { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            });
        }
        local
            .run_until(async {
                tokio::task::yield_now().await;
                assert_eq!(connections.count(), 3);
                connections.enter(Stage::Closing);
                connections.closed().await;
                assert_eq!(connections.count(), 0);
            })
            .await;
    }

    #[test]
    fn a_closed_connections_slot_is_used_again() {
        let connections = Arc::new(Connections::default());
        drop(connections.open());
        let _again = connections.open();
        assert_eq!(connections.slots.lock().wakers.len(), 1);
    }
}
