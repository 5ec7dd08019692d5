//! Limits the connections of a listener, and the time of each. If all slots are taken, a new connection takes over the slot
//! of the connection that has been idle for the longest time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// Time for which a connection must be idle before another one may get its slot. Meanwhile, a request that the client has
/// just sent can arrive.
const MIN_IDLE: Duration = Duration::from_millis(100);

/// Slots for the connections of one listener.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    max: usize,
    taken: Cell<usize>,
    /// Idle connections, the one that has been idle for the longest time first.
    idle: RefCell<BTreeMap<u64, Idle>>,
    next: Cell<u64>,
    /// Notified when a connection has ended or become idle.
    changed: Notify,
}

#[derive(Debug)]
struct Idle {
    since: Instant,
    eviction: Rc<Eviction>,
}

#[derive(Debug, Default)]
struct Eviction {
    is_evicted: Cell<bool>,
    notify: Notify,
}

/// Slot of one connection, freed when dropped. A connection is idle unless a request is in progress.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Rc<ConnectionSlots>,
    /// Position among the idle connections.
    idle: Cell<Option<u64>>,
    eviction: Rc<Eviction>,
}

/// One request in progress, from its head to the end of the response body.
#[derive(Debug)]
pub(super) struct Busy(Rc<ConnectionSlot>);

impl ConnectionSlots {
    pub(super) fn new(max: usize) -> Rc<Self> {
        Rc::new(Self { max, taken: Cell::new(0), idle: RefCell::default(), next: Cell::new(0), changed: Notify::new() })
    }

    /// Returns a slot for a new connection. If all are taken, waits until a connection has been idle for [`MIN_IDLE`],
    /// and evicts the one that has been so for the longest time.
    pub(super) async fn take(self: &Rc<Self>) -> Rc<ConnectionSlot> {
        while self.taken.get() >= self.max {
            let due = self.idle.borrow().first_key_value().map(|(_, idle)| idle.since + MIN_IDLE);
            match due {
                Some(due) if due <= Instant::now() => {
                    self.evict();
                    // The evicted connection closes its socket before a further one is accepted.
                    tokio::task::yield_now().await;
                }
                Some(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
        self.taken.set(self.taken.get() + 1);
        let slot = ConnectionSlot { slots: Rc::clone(self), idle: Cell::new(None), eviction: Rc::default() };
        slot.set_idle();
        Rc::new(slot)
    }

    fn evict(&self) {
        if let Some((_, idle)) = self.idle.borrow_mut().pop_first() {
            self.taken.set(self.taken.get() - 1);
            idle.eviction.is_evicted.set(true);
            idle.eviction.notify.notify_one();
        }
    }
}

impl ConnectionSlot {
    /// Completes when another connection gets the slot.
    pub(super) async fn evicted(&self) {
        self.eviction.notify.notified().await;
    }

    /// Begins a request. The connection keeps its slot until the result is dropped.
    pub(super) fn begin(self: &Rc<Self>) -> Busy {
        self.set_busy();
        Busy(Rc::clone(self))
    }

    fn set_busy(&self) {
        if let Some(at) = self.idle.take() {
            self.slots.idle.borrow_mut().remove(&at);
        }
    }

    fn set_idle(&self) {
        self.set_busy();
        let at = self.slots.next.replace(self.slots.next.get() + 1);
        let idle = Idle { since: Instant::now(), eviction: Rc::clone(&self.eviction) };
        self.slots.idle.borrow_mut().insert(at, idle);
        self.idle.set(Some(at));
        self.slots.changed.notify_one();
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.set_busy();
        if !self.eviction.is_evicted.get() {
            self.slots.taken.set(self.slots.taken.get() - 1);
            self.slots.changed.notify_one();
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if !self.0.eviction.is_evicted.get() {
            self.0.set_idle();
        }
    }
}

/// Timeout for a request as a whole, from its head to the last byte of the response that the client reads.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Time at which a connection is closed, even during a request.
#[derive(Clone, Debug)]
pub(super) struct Deadline(Rc<watch::Sender<Instant>>);

impl Deadline {
    /// Creates a deadline for the first request of a connection.
    pub(super) fn new() -> Self {
        Self(Rc::new(watch::Sender::new(Instant::now() + REQUEST_TIMEOUT)))
    }

    /// Moves the deadline to `timeout` from now.
    pub(super) fn set(&self, timeout: Duration) {
        self.0.send_replace(Instant::now() + timeout);
    }

    /// Returns after the deadline.
    pub(super) async fn passed(&self) {
        let mut changes = self.0.subscribe();
        loop {
            let deadline = *changes.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                _ = changes.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Returns true if the slot has been given to another connection.
    async fn is_evicted(slot: &ConnectionSlot) -> bool {
        let mut evicted = pin!(slot.evicted());
        poll_fn(|cx| Poll::Ready(evicted.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_gets_the_place_of_the_longest_idle_one() {
        let slots = ConnectionSlots::new(3);
        let (first, second, third) = (slots.take().await, slots.take().await, slots.take().await);
        let request = first.begin();
        let started = Instant::now();
        let fourth = slots.take().await;
        assert!(started.elapsed() >= MIN_IDLE, "a request that is on its way arrives");
        assert_eq!(
            [is_evicted(&first).await, is_evicted(&second).await, is_evicted(&third).await],
            [false, true, false]
        );
        drop(second);
        assert_eq!(slots.taken.get(), 3, "the slot is not given back twice");
        drop(request);
        let (_fifth, _sixth) = (slots.take().await, slots.take().await);
        assert_eq!(
            [is_evicted(&first).await, is_evicted(&third).await, is_evicted(&fourth).await],
            [false, true, true]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn with_requests_on_all_connections_a_new_one_waits() {
        let slots = ConnectionSlots::new(1);
        let first = slots.take().await;
        let request = first.begin();
        let mut next = pin!(slots.take());
        assert!(tokio::time::timeout(Duration::from_secs(9), next.as_mut()).await.is_err());
        drop(request);
        let _next = next.await;
        assert!(is_evicted(&first).await);
        drop(first);
        assert_eq!(slots.taken.get(), 1);
    }
}
