//! Requests and responses that hold a slot.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use tower::Service;

use super::limiter::Limiter;
use crate::context::Tunnel;
use crate::observed_body::{FrameObserver, ObservedBody};
use crate::refusal::{LimiterBody, OwnBody};
use crate::response_filter::{MapResponse, ResponseChange};
use crate::wait::HeldRequest;
use tollgate_limiter::concurrency::{Acquired, HeldSlot};

/// Passes the slot to the response: to its body, or to the tunnel that it opens. `None`: the request has no slot.
pub struct PassSlot(pub(super) Option<(Arc<Limiter>, Acquired)>);

/// Request that waits for its slot. If it is dropped, the slot is freed.
pub struct WaitingRequest<S, B> {
    pub(super) wait: Pin<Box<dyn Future<Output = Acquired> + Send>>,
    pub(super) service: S,
    pub(super) request: Request<B>,
    pub(super) limiter: Arc<Limiter>,
}

// === impl WaitingRequest ===

impl<S, B, R> HeldRequest for WaitingRequest<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Outcome = Acquired;
    type Response = Response<SlotBody<R>>;
    type Future = MapResponse<S::Future, PassSlot>;

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Acquired> {
        self.wait.as_mut().poll(cx)
    }

    fn resume(self: Box<Self>, acquired: Acquired) -> ControlFlow<Self::Response, Self::Future> {
        let Self { mut service, request, limiter, .. } = *self;
        limiter.notify_awaited(&acquired.verdict, &request);
        match limiter.refusal(&acquired.verdict, &request) {
            Some(response) => ControlFlow::Break(response.map(|body| SlotBody::holding(body, None))),
            None => {
                let change = PassSlot(Some((limiter, acquired)));
                ControlFlow::Continue(MapResponse::new(service.call(request), change))
            }
        }
    }
}

// === impl PassSlot ===

impl<R> ResponseChange<R> for PassSlot {
    type Body = SlotBody<R>;

    fn change(self, mut response: Response<R>) -> Response<SlotBody<R>> {
        let Some((limiter, Acquired { verdict, mut slot })) = self.0 else {
            return response.map(|body| SlotBody::holding(body, None));
        };
        limiter.report(&verdict, &mut response);
        if let Some(tunnel) = response.extensions().get::<Tunnel>()
            && let Some(slot) = slot.take()
        {
            tunnel.hold(slot);
        }
        response.map(|body| SlotBody::holding(body, slot))
    }
}

/// Body that holds the slot of its request, and frees it when the body has ended, failed or been dropped.
pub type SlotBody<B> = ObservedBody<B, BodySlot>;

/// Slot of a request, until the end of a body.
#[derive(Debug)]
pub struct BodySlot(Option<HeldSlot>);

impl<B> SlotBody<B> {
    /// Creates a body that holds `slot`.
    pub fn holding(inner: B, slot: Option<HeldSlot>) -> Self {
        Self::new(inner, BodySlot(slot))
    }

    /// Returns true if it holds a slot.
    pub fn has_slot(&self) -> bool {
        self.observer.0.is_some()
    }
}

impl<B: LimiterBody> LimiterBody for SlotBody<B> {
    fn refusal(&self) -> Option<&Bytes> {
        self.get_ref().refusal()
    }

    fn own(body: OwnBody) -> Self {
        Self::holding(B::own(body), None)
    }

    fn empty() -> Self {
        Self::holding(B::empty(), None)
    }
}

impl<D> FrameObserver<D> for BodySlot {
    fn observe<B: Body<Data = D>>(&mut self, frame: Option<&Result<Frame<D>, B::Error>>, body: &B) {
        // A server may stop polling after the last frame, and keep the body while it sends that frame.
        if !matches!(frame, Some(Ok(_))) || body.is_end_stream() {
            self.0 = None;
        }
    }
}

crate::opaque_debug!(PassSlot, WaitingRequest<S, B>);
