//! Usage by key: counts requests and the bytes of bodies that were transferred. Never refuses a request.
//!
//! A request is counted once: when both its body and the response's have ended or were dropped. If the client
//! disconnects, the bytes up to then count. The count belongs to the period of that moment and to the status of the
//! response, or to `none` if there was no response. Requests without a key id are counted under the empty id.
//!
//! Responses of inner layers (a denial, a redirect) count like any other. Outside of a limiter, the layer counts all
//! requests; inside, the allowed ones. Bytes of a tunnel (101) are not counted.
//!
//! A request costs two allocations: its tally and its name. Bodies are streamed. [`metering`](tollgate_limiter::metering)
//! describes where the counts go, how long they are kept and which counts can be lost.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tollgate_limiter::metering::{Dimensions, Ledger, Meter, MeterSettings, Period};
//! use tollgate_filters::request_counter::{Counted, RequestCounterLayer};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ledger = Arc::new(Ledger::new(100_000));
//! let settings = MeterSettings {
//!     scope: "orders".into(),
//!     route: "orders".into(),
//!     dimensions: Dimensions { route: false, method: true, status: true },
//!     period: Period::Day,
//!     ttl: Duration::from_secs(35 * 86_400),
//!     hash_ids: false,
//! };
//! let meter = Meter::new(Arc::clone(&ledger), &settings);
//! let upstream = service_fn(|_: Request<Counted<Full<Bytes>>>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("hello")))
//! });
//! let layer = RequestCounterLayer::new(Arc::new(meter), KeyResolver::parse("header:X-User")?);
//! let request = Request::builder().header("x-user", "ada").body(Full::default())?;
//! layer.layer(upstream).oneshot(request).await?.into_body().collect().await?;
//! let usage = ledger.usage();
//! assert!(usage[0].name.starts_with("request_counter.{orders.ada}."));
//! assert_eq!(usage[0].fields, [("GET.2xx.bytes_out".to_owned(), 5), ("GET.2xx.requests".to_owned(), 1)]);
//! # Ok(())
//! # }
//! ```

mod body;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

pub use self::body::Counted;
use self::body::Tally;
use crate::key_resolver::{KeyBuf, KeyResolver};
use tollgate_limiter::metering::Meter;

/// Layer of [`RequestCounter`].
#[derive(Clone, Debug)]
pub struct RequestCounterLayer {
    shared: Arc<Shared>,
}

/// Service that counts usage by key. See the [module](self).
#[derive(Clone, Debug)]
pub struct RequestCounter<S> {
    shared: Arc<Shared>,
    inner: S,
}

#[derive(Debug)]
struct Shared {
    meter: Arc<Meter>,
    key_resolver: KeyResolver,
}

pin_project! {
    /// Future of the inner service's response with a counted body. Dropping it counts a request without a response.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        tally: Option<Arc<Tally>>,
    }
}

// === impl RequestCounterLayer ===

impl RequestCounterLayer {
    /// Creates a layer that counts with `meter`, under the key ids of `key_resolver`.
    #[must_use]
    pub fn new(meter: Arc<Meter>, key_resolver: KeyResolver) -> Self {
        Self { shared: Arc::new(Shared { meter, key_resolver }) }
    }
}

impl<S> Layer<S> for RequestCounterLayer {
    type Service = RequestCounter<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RequestCounter { shared: Arc::clone(&self.shared), inner }
    }
}

// === impl RequestCounter ===

impl<S, B, R> Service<Request<B>> for RequestCounter<S>
where
    S: Service<Request<Counted<B>>, Response = Response<R>>,
{
    type Response = Response<Counted<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Shared { meter, key_resolver } = &*self.shared;
        let mut buf = KeyBuf::new();
        let name = meter.name(key_resolver.resolve(&request, &mut buf).unwrap_or_default());
        let tally = Arc::new(Tally::new(Arc::clone(meter), name, request.method()));
        let request = request.map(|body| Counted::request(body, Arc::clone(&tally)));
        ResponseFuture { inner: self.inner.call(request), tally: Some(tally) }
    }
}

// === impl ResponseFuture ===

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<Counted<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx))?;
        let Some(tally) = this.tally.take() else { return Poll::Pending }; // polled after completion
        tally.set_status(response.status());
        Poll::Ready(Ok(response.map(|body| Counted::response(body, tally))))
    }
}
