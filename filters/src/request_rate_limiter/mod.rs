//! Denies requests of a key that are more than its rules admit: Spring Cloud Gateway's `RequestRateLimiter`.
//!
//! | Outcome | Status | Headers | [`LocalReply`] reason |
//! |---|---|---|---|
//! | allowed | the inner service's | the [families](crate::headers) asked for | none |
//! | denied | [`Settings::status`], 429 | the same, `Retry-After`, `Cache-Control: no-store` | `rate-limited` |
//! | never admitted: costs more than a rule ever admits | as denied | as denied, without `Retry-After` | `rate-limited` |
//! | denied, and [`OnLimit::Forward`] | the overflow service's | as allowed | none |
//! | the store cannot be asked, and the rule says to deny | 503 | as denied | `limiter-unavailable` |
//! | no key id | [`Settings::empty_key_status`], 403, or forwarded unlimited | none | `empty-key` |
//! | blocked | [`Settings::block_status`], 403 | none | `blocked` |
//! | exempt | the inner service's | none | none |
//!
//! A denied request never reaches the inner service. Clients that ask for JSON get an RFC 9457 problem with the type
//! `quota-exceeded`, others a line of text; [`ErrorBody::Empty`] is Spring's bare answer, and [`ErrorBody::Template`]
//! your own. `Retry-After` and `no-store` are ours, the other headers Spring's.
//!
//! Several rules are one question to the store: it takes tokens under all of them, or none. Rules that are only
//! observed ([`Enforcement`]) are asked about in a question of their own, once the others have let the request pass.
//!
//! Where a request's cost is known only later, so much is taken before as [`Cost::tokens`] says; the difference is
//! settled when the response, or the end of a body, brings it. For bodies somebody has to count: see [`Metered`].
//!
//! Under a rule that paces (`leaky-bucket`) an allowed request is held until its turn, on tokio's timer, which must be
//! there; a client that leaves before gives its turn back.
//!
//! A store that decides at once costs no boxed future and no clone of the inner service; one that answers later costs
//! one box a request and a clone of the inner service. Stand it behind what rewrites keys and before anything costly.
//! A `Retry` outside of it takes tokens for each attempt.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::{Empty, Full};
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tollgate_limiter::rule::{Rule, TokenBucket};
//! use tollgate_limiter::store::{Check, Decision, Store};
//! use tollgate_limiter::verdict::{Outcome, Verdict};
//! use tollgate_filters::request_rate_limiter::{RequestRateLimiterLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! /// Has nothing left for anyone.
//! struct Drained;
//!
//! impl Store for Drained {
//!     fn decide(&self, _: &[Check<'_>]) -> Decision {
//!         let outcome = Outcome::Denied { retry_after: Duration::from_millis(1_200) };
//!         Decision::Ready(Verdict { remaining: Some(0), ..Verdict::uncounted(outcome) })
//!     }
//!
//!     fn settle(&self, _: Check<'_>, _: i64, _: u64) {}
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings { key_resolver: KeyResolver::parse("header:X-User")?, ..Settings::default() };
//! let rule = Rule::TokenBucket(TokenBucket::per_second(1, 20)?);
//! let layer = RequestRateLimiterLayer::new("orders".into(), rule, settings, Arc::new(Drained));
//! let upstream = service_fn(|_: Request<Empty<Bytes>>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("never asked")))
//! });
//! let request = Request::builder().header("x-user", "ada").body(Empty::new())?;
//! let response = layer.layer(upstream).oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
//! assert_eq!(response.headers()["retry-after"], "2");
//! assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply

mod access;
mod ask;
mod cost;
mod enforcement;
mod event;
mod future;
mod limit;
mod limiter;
mod report;
mod screen;
mod set;
mod settings;
mod settlement;
mod template;
mod turn;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower::{Layer, Service};

pub use self::access::AccessList;
pub use self::cost::{Cost, CostSource};
pub use self::enforcement::Enforcement;
pub use self::event::{Event, Finding, OnVerdict};
pub use self::future::ResponseFuture;
pub use self::limit::{Limit, PlanResolver, Plans, RuleSets};
use self::limiter::Limiter;
pub use self::settings::{ErrorBody, OnLimit, Settings};
pub use self::settlement::{Metered, RequestMeter, ResponseMeter};
pub use self::template::Template;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::Store;

/// Puts a [`RequestRateLimiter`] before a service. All services of one layer, and all layers of one store and scope,
/// share their buckets.
#[derive(Clone)]
pub struct RequestRateLimiterLayer {
    limiter: Arc<Limiter>,
}

/// Denies requests that are more than their rules admit. See the [module](self).
#[derive(Clone)]
pub struct RequestRateLimiter<S> {
    limiter: Arc<Limiter>,
    inner: S,
    /// Where denied requests go instead, if they do.
    overflow: Option<S>,
}

// === impl RequestRateLimiterLayer ===

impl RequestRateLimiterLayer {
    /// A limiter that holds every key to `rule`, with its buckets in `store`. `scope` tells its buckets from those of
    /// other limiters in the same store, and names the violated policy in problem bodies.
    #[must_use]
    pub fn new(scope: Arc<str>, rule: Rule, settings: Settings, store: Arc<dyn Store>) -> Self {
        let limit = Limit {
            name: Arc::clone(&scope),
            scope: Arc::clone(&scope),
            rule,
            key_resolver: None,
            cost: settings.cost.clone(),
            enforcement: Enforcement::FULL,
        };
        Self::with_rules(&scope, RuleSets::single(limit), settings, store)
    }

    /// A limiter of several rules, on the route of that name.
    #[must_use]
    pub fn with_rules(route: &Arc<str>, rules: RuleSets, settings: Settings, store: Arc<dyn Store>) -> Self {
        Self { limiter: Arc::new(Limiter::new(route, rules, settings, store)) }
    }

    /// Calls `hook` with each decision: for metrics.
    #[must_use]
    pub fn on_verdict(mut self, hook: OnVerdict) -> Self {
        Arc::make_mut(&mut self.limiter).on_verdict = Some(hook);
        self
    }

    /// Leaves [`LocalReply`](crate::context::LocalReply) off refusals: three allocations less for each, where no layer
    /// outside of this one looks for it.
    #[must_use]
    pub fn unmarked(mut self) -> Self {
        Arc::make_mut(&mut self.limiter).unmark();
        self
    }

    /// The service before `inner` that hands denied requests to `overflow`, which must always be ready, where
    /// [`Settings::on_limit`] says so: with the new path, and marked as [`Rerouted`](crate::context::Rerouted).
    pub fn layer_with_overflow<S>(&self, inner: S, overflow: S) -> RequestRateLimiter<S> {
        RequestRateLimiter { limiter: Arc::clone(&self.limiter), inner, overflow: Some(overflow) }
    }
}

impl<S> Layer<S> for RequestRateLimiterLayer {
    type Service = RequestRateLimiter<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RequestRateLimiter { limiter: Arc::clone(&self.limiter), inner, overflow: None }
    }
}

// === impl RequestRateLimiter ===

impl<S, B, R> Service<Request<B>> for RequestRateLimiter<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = self.limiter.verify(&request);
        ResponseFuture::new(answer, &mut self.inner, &mut self.overflow, request, &self.limiter)
    }
}
