//! Settlement of costs that are known only after the request was forwarded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::cost::Cost;
use super::limit::Limit;
use super::limiter::Limiter;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::Check;

/// Tokens that a request took under one rule before its cost was known.
pub(super) struct Reservation {
    pub(super) limiter: Arc<Limiter>,
    /// Position of the rule set in the limiter.
    pub(super) set: u16,
    /// Position of the rule in its set.
    pub(super) limit: u8,
    pub(super) key_id: Box<[u8]>,
    /// Rule that decided in place of the configured one.
    pub(super) rule: Option<Arc<Rule>>,
    pub(super) reserved: u64,
    pub(super) counted_at_us: u64,
}

/// Delay of a paced request. Dropping it before its end gives the slots back.
pub(super) struct PacingDelay {
    pub(super) delay: Duration,
    pub(super) slots: Vec<Reservation>,
}

/// Byte counter of a request's body: a request extension, present if a limiter's cost depends on the body.
///
/// The service that forwards the body wraps it in [`Metered`]. Otherwise the reserved tokens stay taken.
#[derive(Clone)]
pub struct RequestMeter(pub(super) Meter);

/// Byte counter of a response's body: a response extension, see [`RequestMeter`].
#[derive(Clone)]
pub struct ResponseMeter(pub(super) Meter);

#[derive(Clone)]
pub(super) struct Meter(Arc<[Reservation]>);

pin_project! {
    /// Body that charges its bytes when it ends or is dropped.
    pub struct Metered<B> {
        #[pin]
        inner: B,
        settlement: Settlement,
    }
}

/// Byte count of a body. Dropping it settles the reservations.
struct Settlement {
    meter: Meter,
    bytes: u64,
}

// === impl Reservation ===

impl Reservation {
    /// Settles the request's total cost of `tokens`.
    pub(super) fn settle(&self, tokens: u64) {
        let adjustment = i64::try_from(i128::from(tokens) - i128::from(self.reserved)).unwrap_or(i64::MAX);
        if adjustment == 0 {
            return;
        }
        let Limit { scope, rule, .. } = self.limit();
        let rule = self.rule.as_deref().unwrap_or(rule);
        let check = Check { key: BucketKey { scope, id: &self.key_id }, rule, cost: self.reserved };
        self.limiter.store.settle(check, adjustment, self.counted_at_us);
    }

    pub(super) fn cost(&self) -> &Cost {
        &self.limit().cost
    }

    fn limit(&self) -> &Limit {
        &self.limiter.sets[usize::from(self.set)].limits[usize::from(self.limit)]
    }
}

// === impl PacingDelay ===

impl PacingDelay {
    /// Waits until the slot of the request: to the millisecond, and never early.
    pub(super) async fn elapse(mut self) {
        tokio::time::sleep(self.delay).await;
        self.slots.clear();
    }
}

impl Drop for PacingDelay {
    fn drop(&mut self) {
        self.slots.iter().for_each(|slot| slot.settle(0));
    }
}

impl Meter {
    /// Takes the reservations with a cost for which `is_metered` holds; the others stay.
    pub(super) fn take(reservations: &mut Vec<Reservation>, is_metered: impl Fn(&Cost) -> bool) -> Option<Self> {
        let (metered, rest): (Vec<_>, Vec<_>) = reservations.drain(..).partition(|each| is_metered(each.cost()));
        *reservations = rest;
        (!metered.is_empty()).then(|| Self(metered.into()))
    }
}

// === impl Metered ===

impl<B> Metered<B> {
    /// Meters a request's body.
    pub fn request(inner: B, meter: RequestMeter) -> Self {
        Self { inner, settlement: Settlement { meter: meter.0, bytes: 0 } }
    }

    /// Meters a response's body.
    pub fn response(inner: B, meter: ResponseMeter) -> Self {
        Self { inner, settlement: Settlement { meter: meter.0, bytes: 0 } }
    }

    /// Returns the inner body.
    pub fn get_ref(&self) -> &B {
        &self.inner
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        for reservation in &*self.meter.0 {
            reservation.settle(reservation.cost().of_bytes(self.bytes));
        }
    }
}

impl<B: Body> Body for Metered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            this.settlement.bytes += frame.data_ref().map_or(0, |data| data.remaining() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: std::fmt::Debug> std::fmt::Debug for Metered<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.settlement.bytes;
        f.debug_struct("Metered").field("inner", &self.inner).field("bytes", &bytes).finish_non_exhaustive()
    }
}
