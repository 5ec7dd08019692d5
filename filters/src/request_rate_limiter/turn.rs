//! A request that was admitted and waits for its turn.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Request;
use tokio::time::Sleep;

use super::limiter::Limiter;
use crate::limiter::verdict::Verdict;

/// Holds a request until its turn, on tokio's timer: to the millisecond, and never too early. Dropped before that, it
/// gives the turn back. Nothing is kept for that but the request itself, from which the key id is read once more.
pub(super) struct Turn<S, B> {
    sleep: Pin<Box<Sleep>>,
    held: Option<Held<S, B>>,
}

/// What goes on when the turn comes.
pub(super) struct Held<S, B> {
    pub(super) service: S,
    pub(super) request: Request<B>,
    pub(super) limiter: Arc<Limiter>,
    pub(super) verdict: Verdict,
}

impl<S, B> Turn<S, B> {
    /// Waits for as long as the verdict says, from now on.
    pub(super) fn new(held: Held<S, B>) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(held.verdict.delay)), held: Some(held) }
    }

    /// What was held, when it is its turn; `None` if it was handed out already.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Held<S, B>>> {
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(self.held.take())
    }
}

impl<S, B> Drop for Turn<S, B> {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.limiter.give_back(&held.request, &held.verdict);
        }
    }
}
