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
//! disconnected), or until its future is dropped. In the Tollgate gateway, a WebSocket is one request for as long
//! as it is open; behind other servers, an upgraded connection holds no slot.
//!
//! `Retry-After` is always one second, since the end of an in-flight request cannot be predicted. Clients that ask for
//! JSON get an RFC 9457 problem, others a line of text, or no body with [`ErrorBody::Empty`].
//!
//! A slot in memory costs two short locks. A slot in Redis costs a call before the request, a call after it in the
//! background, a box and a clone of the inner service. Place the limiter before costly filters, and outside of `Retry`.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::concurrency_limiter::ConcurrencyLimiterLayer;
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = ConcurrencyLimiterLayer::builder().limit(1).key(KeyResolver::parse("header:X-User")?).build()?;
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

mod builder;
mod future;
mod limiter;

use std::sync::Arc;

use http::{Request, Response};
use tower::{Layer, Service};

pub use self::builder::Builder;
pub use self::future::SlotBody;
use self::future::{PassSlot, WaitingRequest};
use self::limiter::{Admission, Limiter};
pub use self::limiter::{HeaderNames, Settings, VerdictEvent};
use crate::filter::{Filter, FilterLayer, Filtered};
pub use crate::key_resolver::MissingKey;
pub use crate::limiter_builder::BuildError;
use crate::refusal::RefusalResponses;
use crate::refusal_body::{RefusalBodies, RefusalBodyLayer, ReplyBody};
pub use crate::reply::ErrorBody;
use crate::request_filter::RespondOr;
use crate::response_filter::MapResponse;
use crate::wait::Admitted;

/// Limits concurrent requests per key. See the [module](self).
///
/// All services of one layer, and all layers of one store and name, share their slots.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimiterLayer {
    limiter: Arc<Limiter>,
    refusals: RefusalResponses,
}

/// Filter that limits concurrent requests.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimiter {
    limiter: Arc<Limiter>,
}

// === impl ConcurrencyLimiterLayer ===

impl ConcurrencyLimiterLayer {
    /// Wraps `inner`, whose body can be made from bytes: no [`RefusalBody`] wraps it. The service neither makes
    /// errors of gRPC nor calls [`on_refusal`](Builder::on_refusal): a server around it does that.
    ///
    /// [`RefusalBody`]: crate::refusal_body::RefusalBody
    pub fn wrap<S>(&self, inner: S) -> Filtered<ConcurrencyLimiter, S> {
        FilterLayer(ConcurrencyLimiter { limiter: Arc::clone(&self.limiter) }).layer(inner)
    }
}

impl<S> Layer<S> for ConcurrencyLimiterLayer {
    type Service = Filtered<RefusalResponses, Filtered<ConcurrencyLimiter, Filtered<RefusalBodies, S>>>;

    fn layer(&self, inner: S) -> Self::Service {
        FilterLayer(self.refusals.clone()).layer(self.wrap(RefusalBodyLayer::default().layer(inner)))
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
    type Future = RespondOr<Admitted<WaitingRequest<S, B>>, Response<SlotBody<R>>>;

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
                let limiter = Arc::clone(&self.limiter);
                return RespondOr::forward(Admitted::wait(WaitingRequest { wait, service, request, limiter }));
            }
        };
        RespondOr::forward(Admitted::Forwarded { inner: MapResponse::new(inner.call(request), PassSlot(held)) })
    }
}
