//! Keeps answers in memory: Spring Cloud Gateway's `LocalResponseCache`.
//!
//! What is kept, and for whom, is Spring's: answers with 200, 206 or 301 to GET without a body, under the URI, the host,
//! `Authorization`, cookies and whatever `Vary` names, for `time-to-live`. `max-age` of what the client gets is what is
//! left of that, `Pragma` and `Expires` go. A client's `no-store` and `no-cache` pass by the cache; the latter may renew
//! what is kept. What Spring leaves open, or does to the harm of users, follows RFC 9111:
//!
//! - `no-store` and `private` count in any list of directives, and an answer with `Set-Cookie` is nobody else's: none of
//!   them is kept. `no-cache`, `max-age`, `s-maxage` and `Expires` can make an answer's time shorter, not longer.
//! - An answer whose time is over is checked with its `ETag` or `Last-Modified`, and kept on when the upstream says 304.
//! - HEAD is answered from what GET left; a client's conditions are answered 304; `Age` says how old an answer is.
//! - 206 is kept for the same `Range` alone.
//! - A request that changes the resource (POST, PUT, …) and succeeds lets everything be forgotten that is kept of it.
//!
//! The client never waits for the cache: a body is copied as it passes, and kept once it has ended. Memory is bounded,
//! bodies on their way included. A hit costs two look-ups in memory and a SHA-256 of the key; answers that clients get
//! from here are not marked as [local](crate::context::LocalReply): they are the upstream's.
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
mod directives;
mod future;
mod key;
mod rules;
mod stats;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response};
use http_body::Body;
use tokio::time::Instant;
use tower::{Layer, Service};

pub use self::body::Filling;
pub use self::cache::ResponseCache;
pub use self::future::ResponseFuture;
pub use self::stats::{CacheOutcome, CacheStats};

use self::future::Then;
use self::rules::Use;

/// How long answers are kept, and what becomes of them when a client wants a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    time_to_live: Duration,
    renews: bool,
}

/// Puts a [`LocalResponseCache`] before a service.
#[derive(Clone, Debug)]
pub struct LocalResponseCacheLayer {
    shared: Arc<Shared>,
}

/// Keeps answers in memory. See the [module](self).
#[derive(Clone, Debug)]
pub struct LocalResponseCache<S> {
    shared: Arc<Shared>,
    inner: S,
}

#[derive(Debug)]
struct Shared {
    scope: Arc<str>,
    settings: Settings,
    cache: Arc<ResponseCache>,
    differs_by: Box<[HeaderName]>,
}

// === impl Settings ===

impl Settings {
    /// Answers are fresh for `time_to_live` at most. Spring's default is 5 minutes.
    #[must_use]
    pub fn new(time_to_live: Duration) -> Self {
        Self { time_to_live, renews: false }
    }

    /// Whether a client's `Cache-Control: no-cache` renews what is kept, for all (Spring's `update-cache-entry`), or
    /// passes by it (`skip-update-cache-entry`, the default).
    #[must_use]
    pub fn no_cache_renews(self, renews: bool) -> Self {
        Self { renews, ..self }
    }
}

// === impl LocalResponseCacheLayer ===

impl LocalResponseCacheLayer {
    /// Keeps answers in `cache`, which others may share, apart from those of other scopes.
    pub fn new(scope: impl Into<Arc<str>>, settings: Settings, cache: Arc<ResponseCache>) -> Self {
        Self { shared: Arc::new(Shared { scope: scope.into(), settings, cache, differs_by: Box::default() }) }
    }

    /// Keeps answers to requests apart whose fields `names` differ, whatever the upstream's `Vary` says: for what decides
    /// further in which upstream that is.
    #[must_use]
    pub fn differing_by(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        let Shared { scope, settings, cache, .. } = &*self.shared;
        let (scope, settings, cache) = (Arc::clone(scope), *settings, Arc::clone(cache));
        Self { shared: Arc::new(Shared { scope, settings, cache, differs_by: names.into_iter().collect() }) }
    }
}

impl<S> Layer<S> for LocalResponseCacheLayer {
    type Service = LocalResponseCache<S>;

    fn layer(&self, inner: S) -> Self::Service {
        LocalResponseCache { shared: Arc::clone(&self.shared), inner }
    }
}

// === impl LocalResponseCache ===

impl<S, B, R> Service<Request<B>> for LocalResponseCache<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    B: Body,
    R: Body<Data = Bytes> + From<Bytes>,
{
    type Response = Response<Filling<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let shared = &self.shared;
        match shared.look_up(&mut request) {
            Found::Answer(response) => ResponseFuture::answered(response.map(Filling::plain)),
            Found::Nothing(then) => ResponseFuture::passing(self.inner.call(request), Arc::clone(shared), then),
        }
    }
}

/// What the cache has for a request.
enum Found<R> {
    Answer(Response<R>),
    /// Nothing yet, and what becomes of the upstream's answer.
    Nothing(Then),
}

impl Shared {
    fn look_up<B: Body, R: From<Bytes>>(&self, request: &mut Request<B>) -> Found<R> {
        let cache = &self.cache;
        let has_body = !request.body().is_end_stream();
        let used = rules::use_for(request.method(), request.headers(), has_body, self.settings.renews);
        if used == Use::Passes {
            cache.stats().observe(CacheOutcome::Bypass);
            return Found::Nothing(Then::Passes);
        }
        let resource = key::resource(request, &self.scope);
        if used == Use::Changes {
            cache.stats().observe(CacheOutcome::Bypass);
            return Found::Nothing(Then::Changes(resource));
        }
        let is_head = request.method() == Method::HEAD;
        let kept = cache
            .resource(&resource)
            .filter(|_| used == Use::Cached)
            .and_then(|known| cache.answer(&key::answer(&resource, request.headers(), &known.vary), known.generation));
        let now = Instant::now();
        match kept {
            Some(answer) if answer.left(now) > Duration::ZERO => {
                cache.stats().observe(CacheOutcome::Hit);
                Found::Answer(answer.response(request.headers(), is_head, now))
            }
            // What comes of HEAD alone cannot be kept.
            _ if is_head => {
                cache.stats().observe(CacheOutcome::Miss);
                Found::Nothing(Then::Passes)
            }
            kept => {
                let asked = request.headers().clone();
                if let Some(kept) = &kept {
                    rules::ask_again(request.headers_mut(), &kept.headers);
                }
                Found::Nothing(Then::Keeps {
                    resource,
                    asked,
                    expected: cache.expect(&resource, &self.differs_by),
                    kept,
                })
            }
        }
    }
}
