//! Layer and service of the limiter.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::{Layer, Service};

use super::builder::BuildError;
use super::enforcement::Enforcement;
use super::evaluate::Step;
use super::event::OnVerdict;
use super::future::{Services, WaitingRequest};
use super::limiter::Limiter;
use super::limits::{Limit, RuleSets, Settings};
use crate::filter::Filtered;
use crate::refusal_body::{RefusalBodies, RefusalBodyLayer, ReplyBody};
use crate::request_filter::RespondOr;
use crate::wait::Admitted;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::{MAX_CHECKS, Store};

/// Layer of [`RequestRateLimiter`]. All services of one layer, and all layers of one store and scope, share their
/// buckets.
#[derive(Clone)]
pub struct RequestRateLimiterLayer {
    limiter: Arc<Limiter>,
}

/// Service that denies requests over their limits. See the [module](super).
#[derive(Clone)]
pub struct RequestRateLimiter<S> {
    limiter: Arc<Limiter>,
    services: Services<S>,
}

// === impl RequestRateLimiterLayer ===

impl RequestRateLimiterLayer {
    /// Creates a limiter of every key by `rule`, with its buckets in `store`.
    ///
    /// `scope` separates its buckets from those of other limiters in the same store, and names the violated policy in
    /// problem bodies.
    #[must_use]
    pub fn new(scope: Arc<str>, rule: Rule, settings: Settings, store: Arc<dyn Store>) -> Self {
        let limit = Limit {
            name: Arc::clone(&scope),
            scope: Arc::clone(&scope),
            rule,
            key_resolver: settings.key_resolver.clone(),
            cost: settings.cost.clone(),
            enforcement: Enforcement::FULL,
            condition: None,
        };
        Self { limiter: Arc::new(Limiter::new(&scope, RuleSets::single(limit), settings, store)) }
    }

    /// Creates a limiter of several rules. `route` fills the placeholder of that name in [`ErrorBody::Template`](super::ErrorBody::Template).
    ///
    /// # Errors
    /// A set has more than [`MAX_CHECKS`] rules, which a store cannot decide in one call.
    pub fn with_rules(
        route: &Arc<str>,
        rules: RuleSets,
        settings: Settings,
        store: Arc<dyn Store>,
    ) -> Result<Self, BuildError> {
        match rules.longest() {
            0..=MAX_CHECKS => Ok(Self { limiter: Arc::new(Limiter::new(route, rules, settings, store)) }),
            count => Err(BuildError::TooManyRules(count)),
        }
    }

    /// Calls `hook` with each verdict, for metrics.
    #[must_use]
    pub fn on_verdict(mut self, hook: OnVerdict) -> Self {
        Arc::make_mut(&mut self.limiter).on_verdict = Some(hook);
        self
    }

    /// Omits [`LocalReply`](crate::context::LocalReply) from refusals, which saves three allocations each if no outer
    /// layer reads it.
    #[must_use]
    pub fn without_local_reply(mut self) -> Self {
        Arc::make_mut(&mut self.limiter).omit_local_reply();
        self
    }

    /// Wraps `inner`, whose body can be made from bytes: responses keep its type, and no [`RefusalBody`] wraps it.
    ///
    /// Denied requests go to `overflow` if [`Settings::on_limit`] is [`OnLimit::Forward`](super::OnLimit::Forward). They have the
    /// new path and are marked as [`Rerouted`](crate::context::Rerouted). `overflow` must always be ready.
    ///
    /// [`RefusalBody`]: crate::refusal_body::RefusalBody
    pub fn wrap<S>(&self, inner: S, overflow: Option<S>) -> RequestRateLimiter<S> {
        RequestRateLimiter { limiter: Arc::clone(&self.limiter), services: Services { inner, overflow } }
    }
}

impl<S> Layer<S> for RequestRateLimiterLayer {
    type Service = RequestRateLimiter<Filtered<RefusalBodies, S>>;

    fn layer(&self, inner: S) -> Self::Service {
        self.wrap(RefusalBodyLayer::default().layer(inner), None)
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
            Step::Act(action) if !action.is_delayed() => match self.services.act(action, request, &self.limiter) {
                ControlFlow::Break(refusal) => RespondOr::respond(refusal),
                ControlFlow::Continue(inner) => RespondOr::forward(Admitted::Forwarded { inner }),
            },
            step => {
                // The clone may not be ready, so the request takes the ready service.
                let clone = self.services.clone();
                let services = std::mem::replace(&mut self.services, clone);
                RespondOr::forward(WaitingRequest::wait(step, services, request, Arc::clone(&self.limiter)))
            }
        }
    }
}
