//! Layer and service of the limiter.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::{Layer, Service};

use super::evaluate::{Action, Step};
use super::future::{Services, WaitingRequest};
use super::limiter::Limiter;
use crate::filter::{FilterLayer, Filtered};
use crate::refusal::RefusalResponses;
use crate::refusal_body::{RefusalBodies, RefusalBodyLayer, ReplyBody};
use crate::request_filter::RespondOr;
use crate::wait::Admitted;

/// Denies requests over the limits of their keys. See the [module](super) for an example, and [`Builder`](super::Builder) for the
/// settings and their defaults.
///
/// All services of one layer, and all layers of one store and name, share their buckets.
#[derive(Clone, Debug)]
pub struct RequestRateLimiterLayer {
    limiter: Arc<Limiter>,
    refusals: RefusalResponses,
}

/// Service that denies requests over their limits. See the [module](super).
#[derive(Clone, Debug)]
pub struct RequestRateLimiter<S> {
    limiter: Arc<Limiter>,
    services: Services<S>,
}

// === impl RequestRateLimiterLayer ===

impl RequestRateLimiterLayer {
    pub(super) fn new(limiter: Limiter, refusals: RefusalResponses) -> Self {
        Self { limiter: Arc::new(limiter), refusals }
    }

    /// Omits [`LocalReply`](crate::context::LocalReply) from refusals, which saves three allocations each if no outer
    /// layer reads it.
    #[must_use]
    pub fn without_local_reply(mut self) -> Self {
        Arc::make_mut(&mut self.limiter).omit_local_reply();
        self
    }

    /// Wraps `inner`, whose body can be made from bytes: responses keep its type, and no [`RefusalBody`] wraps it. The service
    /// neither makes errors of gRPC nor calls [`on_refusal`](super::Builder::on_refusal): a server around it does that.
    ///
    /// Denied requests go to `overflow` if [`Settings::on_limit`](super::Settings::on_limit) is [`OnLimit::Forward`](super::OnLimit::Forward). They have the
    /// new path and are marked as rerouted. `overflow` must always be ready.
    ///
    /// [`RefusalBody`]: crate::refusal_body::RefusalBody
    pub fn wrap<S>(&self, inner: S, overflow: Option<S>) -> RequestRateLimiter<S> {
        RequestRateLimiter { limiter: Arc::clone(&self.limiter), services: Services { inner, overflow } }
    }
}

impl<S> Layer<S> for RequestRateLimiterLayer {
    type Service = Filtered<RefusalResponses, RequestRateLimiter<Filtered<RefusalBodies, S>>>;

    fn layer(&self, inner: S) -> Self::Service {
        let limiter = self.wrap(RefusalBodyLayer::default().layer(inner), None);
        FilterLayer(self.refusals.clone()).layer(limiter)
    }
}

// === impl RequestRateLimiter ===

impl<S, B, R> Service<Request<B>> for RequestRateLimiter<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: ReplyBody,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = RespondOr<Admitted<WaitingRequest<S, B>>, Response<R>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.services.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.limiter.start(&request) {
            // Without `act`: a request that is refused is not moved.
            Step::Act(Action::Refuse(response)) => RespondOr::respond(response.map(R::from)),
            Step::Act(action) if !action.is_delayed() => match self.services.act(action, request, &self.limiter) {
                ControlFlow::Break(refusal) => RespondOr::respond(refusal),
                ControlFlow::Continue(inner) => RespondOr::forward(Admitted::Forwarded { inner }),
            },
            step => {
                // The clone may not be ready, so the request takes the ready service.
                let clone = self.services.clone();
                let services = std::mem::replace(&mut self.services, clone);
                let limiter = Arc::clone(&self.limiter);
                RespondOr::forward(Admitted::wait(WaitingRequest { step, request, services, limiter }))
            }
        }
    }
}
