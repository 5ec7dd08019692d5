//! Caches responses in memory: Spring Cloud Gateway's `LocalResponseCache`.
//!
//! As in Spring, the cache stores responses with 200, 206 or 301 to GET requests without a body, for `time-to-live`. The
//! key consists of the URI, the host, `Authorization`, cookies, the fields that `Vary` names, and those in
//! [`vary_by`](LocalResponseCacheLayer::vary_by). The client gets the remaining lifetime as `max-age`, without `Pragma`
//! and `Expires`. Requests with `no-store` bypass the cache; [`NoCache`] has the effect of `no-cache` and `max-age`.
//! Cases that Spring does not define, or handles unsafely, follow RFC 9111:
//!
//! - Responses with the word `no-store` or `private` in `Cache-Control`, outside of quoted arguments (`x="…"`), or with `Set-Cookie`, are not stored. `no-cache`,
//!   `max-age`, `s-maxage` and `Expires` can shorten a response's lifetime but not extend it.
//! - A stale response is revalidated with its `ETag` or `Last-Modified`, and stored again if the upstream responds with
//!   304.
//! - HEAD is served from a stored GET response. Conditional requests of clients get a 304. `Age` is set.
//! - 206 is stored for the same `Range` only.
//! - A successful request that changes the resource (POST, PUT, …) invalidates its stored responses.
//!
//! With a [name](LocalResponseCacheLayer::status_name), responses say in `Cache-Status` how the cache handled them.
//!
//! The client never waits for the cache: a body is copied as it streams, and stored after its end. Memory is limited,
//! including bodies that are being copied. A hit costs two look-ups in memory and a SHA-256 of the key. Cached responses
//! have no [`LocalReply`](crate::context::LocalReply), since they are the upstream's.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use tollgate_filters::local_response_cache::{LocalResponseCacheLayer, ResponseCache, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = service_fn(|_: Request<Full<Bytes>>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("hello")))
//! });
//! let cache = Arc::new(ResponseCache::new(1024 * 1024));
//! let settings = Settings::new(Duration::from_secs(300));
//! let cached = LocalResponseCacheLayer::new("orders", settings, cache).layer(upstream);
//! for age in [None, Some("0")] {
//!     let response = cached.clone().oneshot(Request::new(Full::default())).await?;
//!     assert_eq!(response.headers().get("age").map(|age| age.as_bytes()), age.map(str::as_bytes));
//!     assert_eq!(response.into_body().collect().await?.to_bytes(), "hello");
//! }
//! # Ok(())
//! # }
//! ```

mod body;
mod cache;
mod cache_control;
mod handling;
mod key;
mod policy;
mod reuse;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response};
use http_body::Body;
use tokio::time::Instant;
use tower::Service;

pub use self::body::StoringBody;
use self::cache::StoredResponse;
pub use self::cache::{CacheOutcome, CacheStats, ResponseCache};
pub use self::reuse::{NoCache, ReceivedTarget, ReuseUntil, Settings};

use self::handling::{CacheStatus, Exchange, HandleResponse, Handling, append_status};
use self::policy::CacheUse;
use crate::context::ReceivedPath;
use crate::filter::{Filter, FilterLayer};
use crate::refusal_body::ReplyBody;
use crate::request_filter::RespondOr;
use crate::response_filter::MapResponse;

/// Caches responses in memory. See the [module](self).
pub type LocalResponseCacheLayer = FilterLayer<LocalResponseCache>;

/// Filter that caches responses.
#[derive(Clone, Debug)]
pub struct LocalResponseCache {
    shared: Arc<Shared>,
}

#[derive(Clone, Debug)]
struct Shared {
    scope: Arc<str>,
    settings: Settings,
    cache: Arc<ResponseCache>,
    /// Request fields that always distinguish responses.
    vary: Box<[HeaderName]>,
    /// Name of the cache in `Cache-Status`; `None` without that field.
    status_name: Option<Arc<str>>,
}

// === impl LocalResponseCacheLayer ===

impl LocalResponseCacheLayer {
    /// Creates a layer that stores responses in `cache`. Layers that share a cache must have different scopes.
    pub fn new(scope: impl Into<Arc<str>>, settings: Settings, cache: Arc<ResponseCache>) -> Self {
        let shared = Shared { scope: scope.into(), settings, cache, vary: Box::default(), status_name: None };
        Self(LocalResponseCache { shared: Arc::new(shared) })
    }

    /// Stores separate responses for different values of the request fields `names`, in addition to the upstream's `Vary`:
    /// for fields that select the upstream.
    #[must_use]
    pub fn vary_by(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        Arc::make_mut(&mut self.0.shared).vary = names.into_iter().collect();
        self
    }

    /// Adds `Cache-Status` (RFC 9211) to responses, with `name` for this cache, a token.
    #[must_use]
    pub fn status_name(mut self, name: Option<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.0.shared).status_name = name;
        self
    }
}

// === impl LocalResponseCache ===

impl<S, B, R> Filter<S, B> for LocalResponseCache
where
    S: Service<Request<B>, Response = Response<R>>,
    B: Body,
    R: Body<Data = Bytes> + ReplyBody,
{
    type Body = B;
    type Response = Response<StoringBody<R>>;
    type Future = RespondOr<MapResponse<S::Future, HandleResponse>, Response<StoringBody<R>>>;

    fn call(&self, mut request: Request<B>, inner: &mut S) -> Self::Future {
        match self.shared.look_up(&mut request) {
            ControlFlow::Break(response) => RespondOr::respond(response.map(StoringBody::plain)),
            ControlFlow::Continue((handling, why)) => {
                let status = self.shared.status_name.clone().map(|name| CacheStatus { name, why });
                RespondOr::forward(MapResponse::new(inner.call(request), HandleResponse(handling, status)))
            }
        }
    }
}

impl Shared {
    /// Returns the response from the cache, or the handling of the upstream's and the reason why the request is forwarded, as
    /// `fwd` of `Cache-Status` has it.
    fn look_up<B: Body, R: From<Bytes>>(
        self: &Arc<Self>,
        request: &mut Request<B>,
    ) -> ControlFlow<Response<R>, (Handling, &'static str)> {
        let cache = &self.cache;
        let has_body = !request.body().is_end_stream();
        let cache_use = policy::cache_use(request.method(), request.headers(), has_body, self.settings.no_cache);
        if cache_use == CacheUse::Bypass {
            cache.stats().observe(CacheOutcome::Bypass);
            return ControlFlow::Continue((Handling::Forward, "bypass"));
        }
        let resource = key::resource(request, &self.scope);
        let max_age = match cache_use {
            CacheUse::Invalidate => {
                cache.stats().observe(CacheOutcome::Bypass);
                return ControlFlow::Continue((Handling::Invalidate(Arc::clone(cache), resource), "method"));
            }
            CacheUse::Read { max_age } => max_age,
            CacheUse::Update | CacheUse::Bypass => None,
        };
        let is_head = request.method() == Method::HEAD;
        let path = request.extensions().get::<ReceivedPath>();
        let entry = cache.resource(&resource).filter(|_| cache_use != CacheUse::Update);
        let is_known = entry.is_some();
        let stored = entry.and_then(|entry| {
            cache.response(&key::response(&resource, path, request.headers(), &entry.vary), entry.generation)
        });
        let now = Instant::now();
        let is_fresh = |stored: &StoredResponse| {
            stored.remaining_lifetime(now) > Duration::ZERO && max_age.is_none_or(|max_age| stored.age(now) < max_age)
        };
        match stored {
            Some(stored) if is_fresh(&stored) => {
                cache.stats().observe(CacheOutcome::Hit);
                let mut response = stored.response(request.headers(), is_head, now);
                if let Some(name) = &self.status_name {
                    let lifetime = stored.remaining_lifetime(now).as_secs();
                    append_status(&mut response, format!("{name}; hit; ttl={lifetime}"));
                }
                ControlFlow::Break(response)
            }
            // A response to HEAD cannot be stored.
            _ if is_head => {
                cache.stats().observe(CacheOutcome::Miss);
                ControlFlow::Continue((Handling::Forward, "uri-miss"))
            }
            stale => {
                let (path, request_headers) = (path.cloned(), request.headers().clone());
                if let Some(stale) = &stale {
                    policy::set_conditions(request.headers_mut(), &stale.headers);
                }
                let registered = cache.register(&resource, &self.vary);
                let exchange = Exchange { shared: Arc::clone(self), resource, path, request_headers, registered };
                let why = match &stale {
                    _ if cache_use == CacheUse::Update => "request",
                    Some(stale) if stale.remaining_lifetime(now) > Duration::ZERO => "request",
                    Some(_) => "stale",
                    None if is_known => "vary-miss",
                    None => "uri-miss",
                };
                ControlFlow::Continue((Handling::Store(exchange, stale), why))
            }
        }
    }
}
