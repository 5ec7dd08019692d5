//! Costs that are known only once a request went on: what was reserved is settled then.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::limiter::Limiter;

/// What one rule was asked for before the cost was known.
pub(super) struct Charge {
    pub(super) limiter: Arc<Limiter>,
    pub(super) set: u16,
    pub(super) limit: u8,
    pub(super) id: Box<[u8]>,
    pub(super) reserved: u64,
    pub(super) counted_at_us: u64,
}

/// Counts the bytes of a request's body: in the request's extensions, where a limiter's cost depends on them. Whoever
/// hands the body on wraps it in [`Metered`]; without that what was reserved stays taken.
#[derive(Clone)]
pub struct RequestMeter(pub(super) Meter);

/// The same of a response's body, in the response's extensions.
#[derive(Clone)]
pub struct ResponseMeter(pub(super) Meter);

#[derive(Clone)]
pub(super) struct Meter(Arc<[Charge]>);

pin_project! {
    /// A body whose bytes are paid for when it ends, or when nobody wants the rest.
    pub struct Metered<B> {
        #[pin]
        inner: B,
        bill: Bill,
    }
}

/// Settles when it is dropped, which a body is at its end or before.
struct Bill {
    meter: Meter,
    bytes: u64,
}

// === impl Charge ===

impl Charge {
    /// The request costs `tokens` in all.
    pub(super) fn settle(&self, tokens: u64) {
        let more = i64::try_from(i128::from(tokens) - i128::from(self.reserved)).unwrap_or(i64::MAX);
        if more != 0 {
            self.limiter.settle(self, more);
        }
    }

    pub(super) fn cost(&self) -> &super::Cost {
        self.limiter.cost(self)
    }
}

impl Meter {
    /// For those of `charges` that `counts` says to meter; the others stay.
    pub(super) fn take(charges: &mut Vec<Charge>, counts: impl Fn(&super::Cost) -> bool) -> Option<Self> {
        let (metered, rest): (Vec<_>, Vec<_>) = charges.drain(..).partition(|charge| counts(charge.cost()));
        *charges = rest;
        (!metered.is_empty()).then(|| Self(metered.into()))
    }
}

// === impl Metered ===

impl<B> Metered<B> {
    /// `inner`, paid for by `meter`.
    pub fn request(inner: B, meter: RequestMeter) -> Self {
        Self { inner, bill: Bill { meter: meter.0, bytes: 0 } }
    }

    /// `inner`, paid for by `meter`.
    pub fn response(inner: B, meter: ResponseMeter) -> Self {
        Self { inner, bill: Bill { meter: meter.0, bytes: 0 } }
    }

    /// The body within.
    pub fn get_ref(&self) -> &B {
        &self.inner
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        for charge in &*self.meter.0 {
            charge.settle(charge.cost().of_bytes(self.bytes));
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
            this.bill.bytes += frame.data_ref().map_or(0, |data| data.remaining() as u64);
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
        f.debug_struct("Metered").field("inner", &self.inner).field("bytes", &self.bill.bytes).finish_non_exhaustive()
    }
}
