//! Denies requests of a key that are more than its token bucket holds: Spring Cloud Gateway's `RequestRateLimiter`.
//!
//! | Outcome | Status | Headers | [`LocalReply`] reason |
//! |---|---|---|---|
//! | allowed | the inner service's | the four `X-RateLimit-*` | none |
//! | denied | [`Settings::status`], 429 | the four, `Retry-After`, `Cache-Control: no-store` | `rate-limited` |
//! | never admitted: costs more than the bucket holds | as denied | as denied, without `Retry-After` | `rate-limited` |
//! | the store cannot be asked, and the rule says to deny | 503 | as denied | `limiter-unavailable` |
//! | no key id | [`Settings::empty_key_status`], 403, or forwarded unlimited | none | `empty-key` |
//!
//! A denied request never reaches the inner service. Clients that ask for JSON get an RFC 9457 problem with the type
//! `quota-exceeded`, others a line of text; [`ErrorBody::Empty`] is Spring's bare answer. `Retry-After` and
//! `no-store` are ours, the other headers Spring's.
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
//! use tollgate_filters::limiter::rule::{Rule, TokenBucket};
//! use tollgate_filters::limiter::store::{Check, Decision, Store};
//! use tollgate_filters::limiter::verdict::{Outcome, Verdict};
//! use tollgate_filters::request_rate_limiter::{RequestRateLimiterLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! /// Has nothing left for anyone.
//! struct Drained;
//!
//! impl Store for Drained {
//!     fn decide(&self, _: &[Check<'_>]) -> Decision {
//!         let outcome = Outcome::Denied { retry_after: Duration::from_millis(1_200) };
//!         Decision::Ready(Verdict { remaining: Some(0), ..Verdict::unseen(outcome) })
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

mod future;
mod limiter;
mod turn;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tower::{Layer, Service};

pub use self::future::ResponseFuture;
use self::limiter::{Answer, Limiter};
use crate::headers::HeaderNames;
use crate::key_resolver::KeyResolver;
use crate::limiter::rule::Rule;
use crate::limiter::store::Store;
use crate::limiter::verdict::Verdict;

/// What a limiter asks of requests and how it answers. `Default` is Spring's, with a body.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What requests are counted under.
    pub key_resolver: KeyResolver,
    /// The status of a denial (`status-code`).
    pub status: StatusCode,
    /// Whether a request without a key id is refused (`deny-empty-key`); otherwise it passes unlimited.
    pub deny_empty_key: bool,
    /// The status of that refusal (`empty-key-status`).
    pub empty_key_status: StatusCode,
    /// What a request takes (`requested-tokens`).
    pub cost: u64,
    /// Names of the headers that report on the bucket.
    pub headers: HeaderNames,
    /// What refusals have for a body.
    pub error_body: ErrorBody,
}

/// What refusals have for a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorBody {
    /// A problem (RFC 9457) for clients that ask for JSON, a line of plain text for others.
    #[default]
    Problem,
    /// None, as Spring answers.
    Empty,
}

/// Called with each verdict, before the request goes on.
pub type OnVerdict = Arc<dyn Fn(&Verdict) + Send + Sync>;

/// Puts a [`RequestRateLimiter`] before a service. All services of one layer, and all layers of one store and scope,
/// share their buckets.
#[derive(Clone)]
pub struct RequestRateLimiterLayer {
    limiter: Arc<Limiter>,
}

/// Denies requests that are more than their bucket holds. See the [module](self).
#[derive(Clone)]
pub struct RequestRateLimiter<S> {
    limiter: Arc<Limiter>,
    inner: S,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_resolver: KeyResolver::default(),
            status: StatusCode::TOO_MANY_REQUESTS,
            deny_empty_key: true,
            empty_key_status: StatusCode::FORBIDDEN,
            cost: 1,
            headers: HeaderNames::default(),
            error_body: ErrorBody::default(),
        }
    }
}

// === impl RequestRateLimiterLayer ===

impl RequestRateLimiterLayer {
    /// A limiter that holds every key to `rule`, with its buckets in `store`. `scope` tells its buckets from those of
    /// other limiters in the same store, and names the violated policy in problem bodies.
    pub fn new(scope: Arc<str>, rule: Rule, settings: Settings, store: Arc<dyn Store>) -> Self {
        Self { limiter: Arc::new(Limiter::new(scope, rule, settings, store)) }
    }

    /// Calls `hook` with each verdict: for metrics. Requests without a key id have no verdict.
    #[must_use]
    pub fn on_verdict(mut self, hook: OnVerdict) -> Self {
        Arc::make_mut(&mut self.limiter).on_verdict = Some(hook);
        self
    }
}

impl RequestRateLimiterLayer {
    /// Leaves [`LocalReply`](crate::context::LocalReply) off refusals: three allocations less for each, where no layer
    /// outside of this one looks for it.
    #[must_use]
    pub fn unmarked(mut self) -> Self {
        Arc::make_mut(&mut self.limiter).unmark();
        self
    }
}

impl<S> Layer<S> for RequestRateLimiterLayer {
    type Service = RequestRateLimiter<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RequestRateLimiter { limiter: Arc::clone(&self.limiter), inner }
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
        match self.limiter.verify(&request) {
            Answer::Unlimited => ResponseFuture::passing(self.inner.call(request), None),
            Answer::Refused(response) => ResponseFuture::refused(response),
            Answer::Allowed(verdict) if !verdict.delay.is_zero() => {
                // As below.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::pacing(ready, request, Arc::clone(&self.limiter), verdict)
            }
            Answer::Allowed(verdict) => {
                let report = self.limiter.reports().then(|| (Arc::clone(&self.limiter), verdict));
                ResponseFuture::passing(self.inner.call(request), report)
            }
            Answer::Pending(verdict) => {
                // The clone may not be ready; the one that is goes with the request.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::waiting(verdict, ready, request, Arc::clone(&self.limiter))
            }
        }
    }
}
