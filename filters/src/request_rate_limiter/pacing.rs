//! Paced request: admitted, and held until its slot.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Request;
use tokio::time::Sleep;

use super::limiter::Limiter;
use super::outcome::{PacingDelay, Report};
use super::settlement::Reservation;

/// Timer that holds a request until its slot: to the millisecond, and never early. Dropping it before that gives the
/// slot back.
pub(super) struct PacedRequest<S, B> {
    sleep: Pin<Box<Sleep>>,
    slots: Vec<Reservation>,
    held: Option<HeldRequest<S, B>>,
}

/// Request and service to call after the delay.
pub(super) struct HeldRequest<S, B> {
    pub(super) inner: S,
    pub(super) request: Request<B>,
    pub(super) report: Option<Report>,
    pub(super) limiter: Arc<Limiter>,
}

impl<S, B> PacedRequest<S, B> {
    /// Starts the delay.
    pub(super) fn new(delay: PacingDelay, held: HeldRequest<S, B>) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(delay.delay)), slots: delay.slots, held: Some(held) }
    }

    /// Returns the request after the delay; `None` if it was returned already.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<HeldRequest<S, B>>> {
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(self.held.take())
    }
}

impl<S, B> Drop for PacedRequest<S, B> {
    fn drop(&mut self) {
        if self.held.is_some() {
            self.slots.iter().for_each(|slot| slot.settle(0));
        }
    }
}
