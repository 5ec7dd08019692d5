//! Denies requests of a key that are more than so many at once.
//!
//! | Outcome | Status | Headers | [`LocalReply`] reason |
//! |---|---|---|---|
//! | allowed | the inner service's | `X-Concurrency-Limit`, `X-Concurrency-Remaining` | none |
//! | every slot is held | [`Settings::status`], 429 | the two, `Retry-After: 1`, `Cache-Control: no-store` | `concurrency-limited` |
//! | the store cannot be asked, and the rule says to deny | 503 | as denied | `limiter-unavailable` |
//! | no key id | [`Settings::empty_key_status`], 403, or forwarded unlimited | none | `empty-key` |
//!
//! An allowed request holds its slot until the body of its answer has ended, failed or been dropped (the client left),
//! or until its future is dropped before that. An answer that opens a [`Tunnel`] hands its slot over: a WebSocket is one
//! request for as long as it is open.
//!
//! `Retry-After` is always a second: nobody knows when somebody's request ends. Clients that ask for JSON get an RFC
//! 9457 problem, others a line of text, or nothing with [`ErrorBody::Empty`].
//!
//! A slot in memory costs two short locks; one in Redis a call before the request and one after it that nobody waits
//! for, a box and a clone of the inner service. Stand it before what is costly, and outside of what retries.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::concurrency_limiter::{ConcurrencyLimiterLayer, Settings};
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tollgate_limiter::concurrency::{Concurrency, LeaseStats, LeaseTable, MemoryLeases};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rule = Concurrency::new(1, Concurrency::LEASE, None)?;
//! let slots = MemoryLeases::new(Arc::new(LeaseTable::default()), rule, Arc::new(LeaseStats::default()));
//! let settings = Settings { key_resolver: KeyResolver::parse("header:X-User")?, ..Settings::default() };
//! let layer = ConcurrencyLimiterLayer::new("reports".into(), rule, settings, Arc::new(slots));
//! let upstream = service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("a long report")))
//! });
//! let ask = || Request::builder().header("x-user", "ada").body(());
//!
//! let first = layer.layer(upstream).oneshot(ask()?).await?;
//! assert_eq!(first.headers()["x-concurrency-remaining"], "0");
//! let second = layer.layer(upstream).oneshot(ask()?).await?;
//! assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
//! drop(first); // sent, or given up
//! assert_eq!(layer.layer(upstream).oneshot(ask()?).await?.status(), StatusCode::OK);
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply
//! [`Tunnel`]: crate::context::Tunnel

mod body;
mod future;
mod limiter;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use tower::{Layer, Service};

pub use self::body::Leased;
pub use self::future::ResponseFuture;
use self::limiter::{Answer, Limiter};
use crate::key_resolver::KeyResolver;
use crate::request_rate_limiter::ErrorBody;
use tollgate_limiter::concurrency::{Concurrency, LeaseStore};
use tollgate_limiter::verdict::Verdict;

/// What a limiter asks of requests and how it answers. The defaults are those of
/// [`RequestRateLimiter`](crate::request_rate_limiter).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose slots.
    pub key_resolver: KeyResolver,
    /// The status of a denial (`status-code`).
    pub status: StatusCode,
    /// Whether a request without a key id is refused (`deny-empty-key`); otherwise it passes unlimited.
    pub deny_empty_key: bool,
    /// The status of that refusal (`empty-key-status`).
    pub empty_key_status: StatusCode,
    /// Names of the headers that report on the slots.
    pub headers: HeaderNames,
    /// What refusals have for a body.
    pub error_body: ErrorBody,
}

/// The names under which a limiter reports, and whether it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Whether any of these headers is sent. `Retry-After` is always.
    pub include: bool,
    /// Slots of the key.
    pub limit: HeaderName,
    /// Slots that were left when the request was decided, `-1` when nobody counted.
    pub remaining: HeaderName,
}

/// Puts a [`ConcurrencyLimiter`] before a service. All services of one layer, and all layers of one store and scope,
/// share their slots.
#[derive(Clone)]
pub struct ConcurrencyLimiterLayer {
    limiter: Arc<Limiter>,
}

/// Denies requests that are more than so many at once. See the [module](self).
#[derive(Clone)]
pub struct ConcurrencyLimiter<S> {
    limiter: Arc<Limiter>,
    inner: S,
}

/// Called with each verdict, before the request goes on.
pub type OnVerdict = Arc<dyn Fn(&Verdict) + Send + Sync>;

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_resolver: KeyResolver::default(),
            status: StatusCode::TOO_MANY_REQUESTS,
            deny_empty_key: true,
            empty_key_status: StatusCode::FORBIDDEN,
            headers: HeaderNames::default(),
            error_body: ErrorBody::default(),
        }
    }
}

// === impl HeaderNames ===

impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            include: true,
            limit: HeaderName::from_static("x-concurrency-limit"),
            remaining: HeaderName::from_static("x-concurrency-remaining"),
        }
    }
}

// === impl ConcurrencyLimiterLayer ===

impl ConcurrencyLimiterLayer {
    /// A limiter that holds every key to `rule`, with its slots in `store`. `scope` tells its slots from those of other
    /// limiters in the same store, and names the violated policy in problem bodies.
    pub fn new(scope: Arc<str>, rule: Concurrency, settings: Settings, store: Arc<dyn LeaseStore>) -> Self {
        Self { limiter: Arc::new(Limiter::new(scope, rule, settings, store)) }
    }

    /// Calls `hook` with each verdict: for metrics. Requests without a key id have no verdict.
    #[must_use]
    pub fn on_verdict(mut self, hook: OnVerdict) -> Self {
        Arc::make_mut(&mut self.limiter).on_verdict = Some(hook);
        self
    }
}

impl<S> Layer<S> for ConcurrencyLimiterLayer {
    type Service = ConcurrencyLimiter<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ConcurrencyLimiter { limiter: Arc::clone(&self.limiter), inner }
    }
}

// === impl ConcurrencyLimiter ===

impl<S, B, R> Service<Request<B>> for ConcurrencyLimiter<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: From<Bytes>,
{
    type Response = Response<Leased<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.limiter.verify(&request) {
            Answer::Unlimited => ResponseFuture::passing(self.inner.call(request), None),
            Answer::Refused(response) => ResponseFuture::refused(response),
            Answer::Allowed(acquired) => {
                ResponseFuture::passing(self.inner.call(request), Some((Arc::clone(&self.limiter), acquired)))
            }
            Answer::Pending(acquired) => {
                // The clone may not be ready; the one that is goes with the request.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::waiting(acquired, ready, request, Arc::clone(&self.limiter))
            }
        }
    }
}
