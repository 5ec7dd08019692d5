//! Interim responses (1xx) of one request at a time (RFC 9110 §15.2).
//!
//! The server lets the code that handles a request send them: [`InterimSender::scope`] provides the queue while the
//! request is handled and its future polled, and [`InterimSender::current`] finds it. An extension of each request would
//! cost more.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Waker};

use http::Response;
use parking_lot::Mutex;

/// Most interim responses that wait for one client. Further ones are dropped: they are hints.
const MAX_WAITING: usize = 16;

thread_local! {
    static CURRENT: RefCell<Option<InterimSender>> = const { RefCell::new(None) };
}

/// Queue of interim responses on their way to a client. All clones share one queue.
#[derive(Clone, Debug, Default)]
pub struct InterimResponses(Arc<SharedQueue>);

/// Sender of interim responses to one request.
#[derive(Clone, Debug)]
pub struct InterimSender {
    queue: InterimResponses,
    request: u64,
}

#[derive(Debug, Default)]
struct SharedQueue {
    has_waiting: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Response<()>>,
    waker: Option<Waker>,
    /// Number of the request that is open.
    request: u64,
    state: RequestState,
}

/// Progress of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestState {
    /// Its final response has begun, or there is no request.
    #[default]
    Closed,
    /// Its final response begins after the interim responses that wait.
    Last,
    Open,
}

impl InterimResponses {
    /// Begins a request, the next one of the connection or the stream.
    pub fn open(&self) -> InterimSender {
        let mut queue = self.0.queue.lock();
        self.clear(&mut queue);
        queue.request += 1;
        queue.state = RequestState::Open;
        InterimSender { queue: self.clone(), request: queue.request }
    }

    /// Returns true if responses wait.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.0.has_waiting.load(Relaxed)
    }

    /// Wakes the current task for further responses.
    pub fn watch(&self, cx: &Context<'_>) {
        let mut queue = self.0.queue.lock();
        if queue.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            queue.waker = Some(cx.waker().clone());
        }
    }

    /// Wakes the task that [watches](Self::watch).
    pub fn wake(&self) {
        if let Some(waker) = &self.0.queue.lock().waker {
            waker.wake_by_ref();
        }
    }

    /// Takes the queued responses.
    #[must_use]
    pub fn take(&self) -> Vec<Response<()>> {
        let mut queue = self.0.queue.lock();
        self.0.has_waiting.store(false, Relaxed);
        std::mem::take(&mut queue.waiting)
    }

    /// Takes the responses that were left when the request [closed](Self::close).
    #[must_use]
    pub fn take_last(&self) -> Vec<Response<()>> {
        let is_last = self.0.queue.lock().state == RequestState::Last;
        if is_last { self.take() } else { Vec::new() }
    }

    /// Drops all further responses: the final response begins. If `may_write`, the queued ones are written before it.
    pub fn close(&self, may_write: bool) {
        let mut queue = self.0.queue.lock();
        if may_write && !queue.waiting.is_empty() {
            queue.state = RequestState::Last;
        } else {
            self.clear(&mut queue);
            queue.state = RequestState::Closed;
        }
    }

    fn clear(&self, queue: &mut Queue) {
        queue.waiting.clear();
        self.0.has_waiting.store(false, Relaxed);
    }
}

impl InterimSender {
    /// Returns the sender of the request whose future is being polled.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Handles the request of `sender`, or polls its future.
    pub fn scope<T>(sender: &mut Option<Self>, work: impl FnOnce() -> T) -> T {
        /// Ends the scope, after a panic too.
        struct Scope<'s>(&'s mut Option<InterimSender>);

        impl Scope<'_> {
            fn swap(&mut self) {
                *self.0 = CURRENT.replace(self.0.take());
            }
        }

        impl Drop for Scope<'_> {
            fn drop(&mut self) {
                self.swap();
            }
        }

        let mut scope = Scope(sender);
        scope.swap();
        work()
    }

    /// Queues a response, unless the final response has begun.
    pub fn send(&self, response: Response<()>) {
        let mut queue = self.queue.0.queue.lock();
        if queue.request != self.request || queue.state != RequestState::Open || queue.waiting.len() >= MAX_WAITING {
            return;
        }
        queue.waiting.push(response);
        self.queue.0.has_waiting.store(true, Relaxed);
        if let Some(waker) = &queue.waker {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_open_request_sends() {
        let queue = InterimResponses::default();
        let first = queue.open();
        first.send(Response::new(()));
        assert_eq!((queue.has_waiting(), queue.take_last().len(), queue.take().len()), (true, 0, 1));
        first.send(Response::new(()));
        queue.close(true);
        first.send(Response::new(()));
        assert_eq!((queue.take_last().len(), queue.has_waiting()), (1, false), "those before the final response");
        let second = queue.open();
        first.send(Response::new(()));
        assert!(!queue.has_waiting(), "a late response to an earlier request");
        second.send(Response::new(()));
        queue.close(false);
        assert!(!queue.has_waiting() && queue.take().is_empty());
    }

    #[test]
    fn the_sender_of_a_scope_is_current_within_it_only() {
        let mut sender = Some(InterimResponses::default().open());
        assert!(InterimSender::scope(&mut sender, InterimSender::current).is_some());
        assert!(InterimSender::current().is_none() && sender.is_some());
        assert!(
            InterimSender::scope(&mut sender, || InterimSender::scope(&mut None, InterimSender::current)).is_none()
        );
    }
}
