//! Requests that wait for a stream of an HTTP/2 connection: first come, first served.

use tokio::sync::{Mutex, Notify};

/// Queue of requests that wait for a stream. Only the first one takes a stream.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    /// Held by the first request. The lock is fair: it passes to the others in their order.
    first: Mutex<()>,
    may_be_free: Notify,
}

impl WaitingRequests {
    /// Returns true if no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.first.try_lock().is_ok()
    }

    /// Lets the first request try again: a stream may be free.
    pub(super) fn wake_first(&self) {
        self.may_be_free.notify_one();
    }

    /// Waits behind the requests in the queue, and then until `take` returns a value.
    pub(super) async fn wait<T>(&self, mut take: impl FnMut() -> Option<T>) -> T {
        let _first = self.first.lock().await;
        loop {
            if let Some(taken) = take() {
                return taken;
            }
            self.may_be_free.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    /// Queue with a number of free streams, and the requests that got one.
    #[derive(Default)]
    struct Streams {
        requests: WaitingRequests,
        free: Cell<usize>,
        served: RefCell<Vec<usize>>,
    }

    impl Streams {
        async fn request(self: Rc<Self>, number: usize) {
            self.requests.wait(|| self.free.get().checked_sub(1).map(|left| self.free.set(left))).await;
            self.served.borrow_mut().push(number);
        }

        async fn release(&self, count: usize) -> Vec<usize> {
            self.free.set(self.free.get() + count);
            self.requests.wake_first();
            for _ in 0..20 {
                yield_now().await;
            }
            self.served.take()
        }
    }

    #[tokio::test]
    async fn requests_are_served_in_their_order_also_if_others_give_up() {
        let streams = Rc::<Streams>::default();
        let waiting = async {
            let tasks: Vec<_> = (0..6).map(|n| spawn_local(Rc::clone(&streams).request(n))).collect();
            assert_eq!(streams.release(0).await, [0; 0]);
            assert_eq!(streams.release(1).await, [0]);
            assert_eq!(streams.release(2).await, [1, 2], "one wake-up is enough for all free streams");
            tasks[4].abort();
            assert_eq!(streams.release(0).await, [0; 0]);
            // The first one is woken and gives up before it runs: the next one gets the stream.
            streams.free.set(1);
            streams.requests.wake_first();
            tasks[3].abort();
            assert_eq!(streams.release(0).await, [5]);
            assert!(streams.requests.is_empty());
        };
        LocalSet::new().run_until(waiting).await;
    }
}
