//! Interim responses (1xx) of one request at a time (RFC 9110 §15.2).
//!
//! The server lets the code that handles a request send them: [`InterimSender::enter`] provides the queue while the
//! request is handled and its future polled, and [`InterimSender::current`] finds it. An extension of each request would
//! cost more.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use http::Response;
use parking_lot::Mutex;

/// Most interim responses that wait for one client. Further ones are dropped: they are hints.
const MAX_WAITING: usize = 16;

thread_local! {
    static CURRENT: Cell<Option<InterimSender>> = const { Cell::new(None) };
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

/// Scope of an [`InterimSender`], which ends when it is dropped, after a panic too.
#[derive(Debug)]
#[must_use]
pub struct Scope<'s>(&'s mut Option<InterimSender>);

/// Queue of a connection or a stream. Its mutex is locked only if responses wait: a single thread uses it.
#[derive(Debug, Default)]
struct SharedQueue {
    /// Number of the current request, which is odd until the final response begins.
    request: AtomicU64,
    has_waiting: AtomicBool,
    waiting: Mutex<Vec<Response<()>>>,
    /// Task of the connection or the stream.
    task: OnceLock<Waker>,
}

impl InterimResponses {
    /// Begins a request, the next one of the connection or the stream.
    pub fn open(&self) -> InterimSender {
        if self.has_waiting() {
            drop(self.take());
        }
        let request = (self.0.request.load(Relaxed) | 1) + 2;
        self.0.request.store(request, Relaxed);
        InterimSender { queue: self.clone(), request }
    }

    /// Returns true if responses wait.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.0.has_waiting.load(Relaxed)
    }

    /// Wakes the current task for further responses: always the same one.
    pub fn watch(&self, cx: &Context<'_>) {
        self.0.task.get_or_init(|| cx.waker().clone());
    }

    /// Wakes the task that [watches](Self::watch).
    pub fn wake(&self) {
        self.0.task.get().into_iter().for_each(Waker::wake_by_ref);
    }

    /// Takes the queued responses.
    #[must_use]
    pub fn take(&self) -> Vec<Response<()>> {
        if !self.has_waiting() {
            return Vec::new();
        }
        self.0.has_waiting.store(false, Relaxed);
        std::mem::take(&mut *self.0.waiting.lock())
    }

    /// Takes the responses that were left when the request [closed](Self::close).
    #[must_use]
    pub fn take_last(&self) -> Vec<Response<()>> {
        if self.0.request.load(Relaxed).is_multiple_of(2) { self.take() } else { Vec::new() }
    }

    /// Drops all further responses: the final response begins. If `may_write`, the queued ones are written before it.
    pub fn close(&self, may_write: bool) {
        self.0.request.store(self.0.request.load(Relaxed) & !1, Relaxed);
        if !may_write && self.has_waiting() {
            drop(self.take());
        }
    }
}

impl InterimSender {
    /// Returns the sender of the request whose future is being polled.
    #[must_use]
    pub fn current() -> Option<Self> {
        let current = CURRENT.take();
        CURRENT.set(current.clone());
        current
    }

    /// Makes `sender` the current one until the result is dropped: while its request is handled, and while the future of that is
    /// polled.
    #[inline]
    pub fn enter(sender: &mut Option<Self>) -> Scope<'_> {
        let mut scope = Scope(sender);
        scope.swap();
        scope
    }

    /// Queues a response, unless the final response has begun.
    pub fn send(&self, response: Response<()>) {
        let queue = &*self.queue.0;
        let mut waiting = queue.waiting.lock();
        if queue.request.load(Relaxed) != self.request || waiting.len() >= MAX_WAITING {
            return;
        }
        waiting.push(response);
        queue.has_waiting.store(true, Relaxed);
        self.queue.wake();
    }
}

impl Scope<'_> {
    #[inline]
    fn swap(&mut self) {
        *self.0 = CURRENT.replace(self.0.take());
    }
}

impl Drop for Scope<'_> {
    #[inline]
    fn drop(&mut self) {
        self.swap();
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
        let scope = InterimSender::enter(&mut sender);
        assert!(InterimSender::current().is_some());
        let mut none = None;
        let inner = InterimSender::enter(&mut none);
        assert!(InterimSender::current().is_none());
        drop(inner);
        assert!(InterimSender::current().is_some());
        drop(scope);
        assert!(InterimSender::current().is_none() && sender.is_some());
    }
}
