//! Requests that wait for a stream of an HTTP/2 connection: first come, first served.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// Queue of requests that wait for a stream. Only the first one takes a stream.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests(RefCell<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(u64, Waker)>,
    /// Number of the next request.
    next: u64,
}

impl Queue {
    /// Returns the index of a request. Numbers ascend.
    fn index(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |(number, _)| *number).ok()
    }
}

/// Place of a request in the queue, which it leaves on drop.
struct Place<'q> {
    requests: &'q WaitingRequests,
    number: u64,
}

impl WaitingRequests {
    /// Returns true if no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().waiting.is_empty()
    }

    /// Lets the first request try again: a stream may be free.
    pub(super) fn wake_first(&self) {
        if let Some((_, waker)) = self.0.borrow().waiting.front() {
            waker.wake_by_ref();
        }
    }

    /// Waits behind the requests in the queue, and then until `take` returns a value.
    pub(super) async fn wait<T>(&self, mut take: impl FnMut() -> Option<T>) -> T {
        let place = self.join();
        poll_fn(|cx| {
            let taken = if place.is_first() { take() } else { None };
            match taken {
                Some(taken) => Poll::Ready(taken),
                None => {
                    place.watch(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn join(&self) -> Place<'_> {
        let mut queue = self.0.borrow_mut();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back((number, Waker::noop().clone()));
        Place { requests: self, number }
    }
}

impl Place<'_> {
    fn is_first(&self) -> bool {
        self.requests.0.borrow().waiting.front().is_some_and(|(number, _)| *number == self.number)
    }

    fn watch(&self, cx: &Context<'_>) {
        let mut queue = self.requests.0.borrow_mut();
        if let Some((_, waker)) = queue.index(self.number).and_then(|index| queue.waiting.get_mut(index)) {
            waker.clone_from(cx.waker());
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let was_first = self.is_first();
        let mut queue = self.requests.0.borrow_mut();
        if let Some(index) = queue.index(self.number) {
            queue.waiting.remove(index);
        }
        drop(queue);
        // More than one stream may be free, and the request may have been woken in vain.
        if was_first {
            self.requests.wake_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
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
