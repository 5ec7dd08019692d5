//! Settlement of costs that are known only after the request was forwarded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame};

use super::Limit;
use super::cost::Cost;
use super::limiter::Limiter;
use crate::observed_body::{FrameObserver, ObservedBody};
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

/// Body that charges its bytes when it ends or is dropped.
pub type Metered<B> = ObservedBody<B, Settlement>;

/// Byte count of a body. Dropping it settles the reservations.
pub struct Settlement {
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
        Self::new(inner, Settlement { meter: meter.0, bytes: 0 })
    }

    /// Meters a response's body.
    pub fn response(inner: B, meter: ResponseMeter) -> Self {
        Self::new(inner, Settlement { meter: meter.0, bytes: 0 })
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        for reservation in &*self.meter.0 {
            reservation.settle(reservation.cost().of_bytes(self.bytes));
        }
    }
}

impl<D: Buf> FrameObserver<D> for Settlement {
    fn observe<B: Body<Data = D>>(&mut self, frame: Option<&Result<Frame<D>, B::Error>>, _: &B) {
        if let Some(Ok(frame)) = frame {
            self.bytes += frame.data_ref().map_or(0, |data| data.remaining() as u64);
        }
    }
}

impl std::fmt::Debug for Settlement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settlement").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

crate::opaque_debug!(RequestMeter, ResponseMeter);
