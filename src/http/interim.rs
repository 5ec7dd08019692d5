//! Interim responses (1xx) of one request (RFC 9110 §15.2).

use std::sync::Arc;
use std::task::{Context, Waker};

use http::Response;
use parking_lot::Mutex;

/// Most interim responses that wait for one client. Further ones are dropped: they are hints.
const MAX_WAITING: usize = 16;

/// Queue of interim responses on their way to the client. All clones share one queue.
#[derive(Clone, Debug, Default)]
pub struct InterimResponses(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Response<()>>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl InterimResponses {
    /// Queues a response, unless the final response has begun.
    pub fn send(&self, response: Response<()>) {
        let mut queue = self.0.lock();
        if queue.is_closed || queue.waiting.len() >= MAX_WAITING {
            return;
        }
        queue.waiting.push(response);
        if let Some(waker) = &queue.waker {
            waker.wake_by_ref();
        }
    }

    /// Takes the queued responses. The current task is woken for further ones.
    pub fn take(&self, cx: &Context<'_>) -> Vec<Response<()>> {
        let mut queue = self.0.lock();
        if queue.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            queue.waker = Some(cx.waker().clone());
        }
        std::mem::take(&mut queue.waiting)
    }

    /// Drops the queued responses and all further ones: the final response begins.
    pub fn close(&self) {
        let mut queue = self.0.lock();
        (queue.is_closed, queue.waker) = (true, None);
        queue.waiting.clear();
    }
}
