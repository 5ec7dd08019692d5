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
//! use tollgate_filters::limiter::metering::{Dimensions, Ledger, Meter, MeterSettings, Period};
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

use std::sync::Arc;

use http::{Request, Response};
use tower::Service;

pub use self::body::Counted;
use self::body::{ByteCounter, Tally};
use crate::filter::{Filter, FilterLayer};
use crate::key_resolver::{KeyBuf, KeyResolver};
use crate::response_filter::{MapResponse, ResponseChange};
use tollgate_limiter::metering::Meter;

/// Counts usage by key. See the [module](self).
pub type RequestCounterLayer = FilterLayer<RequestCounter>;

/// Filter that counts usage by key.
#[derive(Clone, Debug)]
pub struct RequestCounter {
    meter: Arc<Meter>,
    key_resolver: Arc<KeyResolver>,
}

/// Counts the body of the response.
#[derive(Debug)]
pub struct CountResponse(Arc<Tally>);

// === impl RequestCounterLayer ===

impl RequestCounterLayer {
    /// Creates a layer that counts with `meter`, under the key ids of `key_resolver`.
    #[must_use]
    pub fn new(meter: Arc<Meter>, key_resolver: KeyResolver) -> Self {
        Self(RequestCounter { meter, key_resolver: Arc::new(key_resolver) })
    }
}

// === impl RequestCounter ===

impl<S, B, R> Filter<S, B> for RequestCounter
where
    S: Service<Request<Counted<B>>, Response = Response<R>>,
{
    type Body = Counted<B>;
    type Response = Response<Counted<R>>;
    type Future = MapResponse<S::Future, CountResponse>;

    fn call(&self, request: Request<B>, inner: &mut S) -> Self::Future {
        let Self { meter, key_resolver } = self;
        let mut buf = KeyBuf::new();
        let name = meter.name(key_resolver.resolve(&request, &mut buf).unwrap_or_default());
        let tally = Arc::new(Tally::new(Arc::clone(meter), name, request.method()));
        let counter = ByteCounter { tally: Arc::clone(&tally), is_response: false };
        let request = request.map(|body| Counted::new(body, counter));
        MapResponse::new(inner.call(request), CountResponse(tally))
    }
}

// === impl CountResponse ===

impl<R> ResponseChange<R> for CountResponse {
    type Body = Counted<R>;

    fn change(self, response: Response<R>) -> Response<Counted<R>> {
        self.0.set_status(response.status());
        response.map(|body| Counted::new(body, ByteCounter { tally: self.0, is_response: true }))
    }
}
