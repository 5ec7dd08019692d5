//! Limits concurrent requests per key.
//!
//! | Outcome | Status | Headers | [`LocalReply`] reason |
//! |---|---|---|---|
//! | allowed | the inner service's | `X-Concurrency-Limit`, `X-Concurrency-Remaining` | none |
//! | no free slot | [`Settings::status`], 429 | the two, `Retry-After: 1`, `Cache-Control: no-store` | `concurrency-limited` |
//! | store unavailable, `on-store-failure: deny` | 503 | as denied | `limiter-unavailable` |
//! | no key id | [`Settings::empty_key_status`], 403, or forwarded unlimited | none | `empty-key` |
//! | several different key ids | [`Settings::empty_key_status`], 403 | none | `ambiguous-key` |
//!
//! An allowed request holds its slot until the body of its response has ended, failed or been dropped (the client
//! disconnected), or until its future is dropped. A response that opens a [`Tunnel`] passes its slot to the tunnel: a
//! WebSocket is one request for as long as it is open.
//!
//! `Retry-After` is always one second, since the end of an in-flight request cannot be predicted. Clients that ask for
//! JSON get an RFC 9457 problem, others a line of text, or no body with [`ErrorBody::Empty`].
//!
//! A slot in memory costs two short locks. A slot in Redis costs a call before the request, a call after it in the
//! background, a box and a clone of the inner service. Place the limiter before costly filters, and outside of `Retry`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::concurrency_limiter::{ConcurrencyLimiterLayer, Settings};
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tollgate_limiter::concurrency::{Concurrency, SlotStats, SlotTable, MemorySlots};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rule = Concurrency::new(1, Concurrency::TTL, None)?;
//! let slots = MemorySlots::new(Arc::new(SlotTable::default()), rule, Arc::new(SlotStats::default()));
//! let settings = Settings { key_resolver: KeyResolver::parse("header:X-User")?, ..Settings::default() };
//! let layer = ConcurrencyLimiterLayer::new("reports".into(), rule, settings, Arc::new(slots));
//! let upstream = service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("a long report")))
//! });
//! let request = || Request::builder().header("x-user", "ada").body(());
//!
//! let first = layer.layer(upstream).oneshot(request()?).await?;
//! assert_eq!(first.headers()["x-concurrency-remaining"], "0");
//! let second = layer.layer(upstream).oneshot(request()?).await?;
//! assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
//! drop(first); // sent, or cancelled
//! assert_eq!(layer.layer(upstream).oneshot(request()?).await?.status(), StatusCode::OK);
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply
//! [`Tunnel`]: crate::context::Tunnel

mod future;
mod limiter;

use std::sync::Arc;

use http::{Request, Response};
use tower::{Layer, Service};

pub use self::future::SlotBody;
use self::future::{PassSlot, WaitingRequest};
use self::limiter::{Admission, Limiter};
pub use self::limiter::{HeaderNames, OnVerdict, Settings};
use crate::filter::{Filter, FilterLayer, Filtered};
use crate::refusal_body::{RefusalBodies, RefusalBodyLayer, ReplyBody};
pub use crate::reply::ErrorBody;
use crate::request_filter::RespondOr;
use crate::response_filter::MapResponse;
use crate::wait::Admitted;
use tollgate_limiter::concurrency::{Concurrency, SlotStore};

/// Limits concurrent requests per key. See the [module](self).
///
/// All services of one layer, and all layers of one store and scope, share their slots.
#[derive(Clone)]
pub struct ConcurrencyLimiterLayer {
    limiter: Arc<Limiter>,
}

/// Filter that limits concurrent requests.
#[derive(Clone)]
pub struct ConcurrencyLimiter {
    limiter: Arc<Limiter>,
}

// === impl ConcurrencyLimiterLayer ===

impl ConcurrencyLimiterLayer {
    /// Creates a limiter of every key by `rule`, with its slots in `store`.
    ///
    /// `scope` separates its slots from those of other limiters in the same store, and names the violated policy in
    /// problem bodies.
    pub fn new(scope: Arc<str>, rule: Concurrency, settings: Settings, store: Arc<dyn SlotStore>) -> Self {
        Self { limiter: Arc::new(Limiter::new(scope, rule, settings, store)) }
    }

    /// Calls `hook` with each verdict, for metrics. Requests without a key id have no verdict.
    #[must_use]
    pub fn on_verdict(mut self, hook: OnVerdict) -> Self {
        Arc::make_mut(&mut self.limiter).on_verdict = Some(hook);
        self
    }

    /// Wraps `inner`, whose body can be made from bytes: no [`RefusalBody`] wraps it.
    ///
    /// [`RefusalBody`]: crate::refusal_body::RefusalBody
    pub fn wrap<S>(&self, inner: S) -> Filtered<ConcurrencyLimiter, S> {
        FilterLayer(ConcurrencyLimiter { limiter: Arc::clone(&self.limiter) }).layer(inner)
    }
}

impl<S> Layer<S> for ConcurrencyLimiterLayer {
    type Service = Filtered<ConcurrencyLimiter, Filtered<RefusalBodies, S>>;

    fn layer(&self, inner: S) -> Self::Service {
        self.wrap(RefusalBodyLayer::default().layer(inner))
    }
}

// === impl ConcurrencyLimiter ===

impl<S, B, R> Filter<S, B> for ConcurrencyLimiter
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: ReplyBody,
{
    type Body = B;
    type Response = Response<SlotBody<R>>;
    type Future = RespondOr<Admitted<Box<WaitingRequest<S, B>>>, Response<SlotBody<R>>>;

    fn call(&self, request: Request<B>, inner: &mut S) -> Self::Future {
        let held = match self.limiter.verify(&request) {
            Admission::Refused(response) => {
                return RespondOr::respond(response.map(|body| SlotBody::holding(body, None)));
            }
            Admission::Unlimited => None,
            Admission::Allowed(acquired) => Some((Arc::clone(&self.limiter), acquired)),
            Admission::Pending(wait) => {
                // The clone may not be ready, so the request takes the ready service.
                let clone = inner.clone();
                let service = std::mem::replace(inner, clone);
                let held = WaitingRequest { service, request, limiter: Arc::clone(&self.limiter) };
                return RespondOr::forward(Admitted::Waiting { wait, held: Some(Box::new(held)) });
            }
        };
        RespondOr::forward(Admitted::Forwarded { inner: MapResponse::new(inner.call(request), PassSlot(held)) })
    }
}
