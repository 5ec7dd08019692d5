//! A request that was admitted and waits for its turn.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use tokio::time::Sleep;

use super::limiter::{Limiter, Report};
use super::settlement::Charge;

/// How long to wait, and what to give back if nobody waits so long.
pub(super) struct Wait {
    pub(super) delay: Duration,
    pub(super) turns: Vec<Charge>,
}

/// Holds a request until its turn, on tokio's timer: to the millisecond, and never too early. Dropped before that, it
/// gives the turn back.
pub(super) struct Turn<S, B> {
    sleep: Pin<Box<Sleep>>,
    turns: Vec<Charge>,
    held: Option<Held<S, B>>,
}

/// What goes on when the turn comes.
pub(super) struct Held<S, B> {
    pub(super) inner: S,
    pub(super) request: Request<B>,
    pub(super) report: Option<Report>,
    pub(super) limiter: Arc<Limiter>,
}

impl<S, B> Turn<S, B> {
    /// Waits from now on.
    pub(super) fn new(wait: Wait, held: Held<S, B>) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(wait.delay)), turns: wait.turns, held: Some(held) }
    }

    /// What was held, when it is its turn; `None` if it was handed out already.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Held<S, B>>> {
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(self.held.take())
    }
}

impl<S, B> Drop for Turn<S, B> {
    fn drop(&mut self) {
        if self.held.is_some() {
            self.turns.iter().for_each(|turn| turn.settle(0));
        }
    }
}
