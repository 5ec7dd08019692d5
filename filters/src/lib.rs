//! Rate limiting and request filters as [tower] layers, for any tower or axum service.
//!
//! ```
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tollgate_filters::limiter::TokenBucket;
//! use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;
//!
//! // 10 requests per second of each client address, and bursts of 20. Others get 429 with `Retry-After`.
//! let limiter = RequestRateLimiterLayer::builder()
//!     .rule(TokenBucket::per_second(10, 20)?)
//!     .key(KeyResolver::client_ip())
//!     .build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `Router::layer(limiter)` puts it around an axum service, `ServiceBuilder::layer(limiter)` around any other; the `examples` of this crate
//! are complete programs. Each layer is one module behind one cargo feature, and `full` enables all of them.
//!
//! | Layer | Feature | Does | Responds itself |
//! |---|---|---|---|
//! | [`RequestRateLimiterLayer`] | `request-rate-limiter` | limits requests per key by one or several rules | 429, 403 without a key or blocked, 503 |
//! | [`RequestCounterLayer`] | `request-counter` | counts usage per key, for billing and statistics | never |
//! | [`ConcurrencyLimiterLayer`] | `concurrency-limiter` | limits concurrent requests per key | 429, 403 without a key, 503 |
//! | [`EditLayer`] | `edit` | edits paths, queries, headers and targets | 400 or 500 if a variable does not fit |
//! | [`RedirectToLayer`] | `redirect-to` | redirects every request | always, 3xx |
//! | [`RequestSizeLayer`] | `request-size` | limits the size of request bodies | 413 |
//! | [`RequestHeaderSizeLayer`] | `request-header-size` | limits the size of each request header | 431 |
//! | [`RequireKeyLayer`] | `require-key` | refuses requests without a key, such as a verified token | 401 |
//! | [`IdentifyLayer`] | `verify-api-key` | looks up the API key of requests, for the layers behind it | never |
//! | [`ApiKeyLayer`] | `verify-api-key` | refuses requests without a verified API key | 401, 403, 429, 503 |
//! | [`SetStatusLayer`] | `set-status` | replaces the status of responses | never |
//! | [`SecureHeadersLayer`] | `secure-headers` | adds security headers to responses | never |
//! | [`RemoveJsonAttributesLayer`] | `remove-json-attributes` | removes attributes from JSON responses | 500, 502 for a body that it cannot edit |
//! | [`LocalResponseCacheLayer`] | `local-response-cache` | caches responses in memory | cached responses, 304 |
//! | [`CorsLayer`] | `cors` | answers CORS preflights, adds `Access-Control-*` | 200, 403 |
//! | [`RetryLayer`] | `retry` | repeats failed requests | never |
//! | [`CircuitBreakerLayer`] | `circuit-breaker` | stops calling a failing upstream for a cool-down period | 503 open, 504 time limit |
//!
//! Rules and stores are those of [`limiter`], the crate `tollgate-limiter`.
//!
//! Further features: `redis` and `redis-tls` for limits that several processes share, `jwt` for keys from claims of
//! verified JSON Web Tokens, `axum` for addresses of clients in axum's `ConnectInfo`. The default features are the limiters: `request-rate-limiter` and `concurrency-limiter`.
//!
//! Items of the feature `gateway`, and those that this documentation hides, serve the Tollgate gateway: any version may change them.
//!
//! The limiters fit around services with any response body. Other layers that respond themselves need one with `From<Bytes>`, or
//! [`refusal_body::RefusalBodyLayer`] behind them.
//!
//! [`request_filter`] and [`response_filter`] have the layers of simple filters, for filters of your own; [`filter`] has the
//! one of all others.
//!
//! [`context::RequestContext`] carries facts about a request that are not in the HTTP message, such as the client's
//! address. Responses that a filter makes itself carry [`context::LocalReply`]; [`refusal`] describes those of limiters. Regular expressions have Java's syntax, as in Spring Cloud Gateway.
//!
//! [tower]: https://docs.rs/tower
//! [`RequestRateLimiterLayer`]: request_rate_limiter::RequestRateLimiterLayer
//! [`RequestCounterLayer`]: request_counter::RequestCounterLayer
//! [`ConcurrencyLimiterLayer`]: concurrency_limiter::ConcurrencyLimiterLayer
//! [`EditLayer`]: edit::EditLayer
//! [`RedirectToLayer`]: redirect_to::RedirectToLayer
//! [`RequestSizeLayer`]: request_size::RequestSizeLayer
//! [`RequestHeaderSizeLayer`]: request_header_size::RequestHeaderSizeLayer
//! [`RequireKeyLayer`]: require_key::RequireKeyLayer
//! [`IdentifyLayer`]: verify_api_key::IdentifyLayer
//! [`ApiKeyLayer`]: verify_api_key::ApiKeyLayer
//! [`SetStatusLayer`]: set_status::SetStatusLayer
//! [`SecureHeadersLayer`]: secure_headers::SecureHeadersLayer
//! [`RemoveJsonAttributesLayer`]: remove_json_attributes::RemoveJsonAttributesLayer
//! [`LocalResponseCacheLayer`]: local_response_cache::LocalResponseCacheLayer
//! [`CorsLayer`]: cors::CorsLayer
//! [`RetryLayer`]: retry::RetryLayer
//! [`CircuitBreakerLayer`]: circuit_breaker::CircuitBreakerLayer

#![warn(missing_debug_implementations)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Without its feature, nothing uses the gateway's parts.
#![cfg_attr(not(feature = "gateway"), allow(dead_code, unreachable_pub))]
// Without all features, links lead to absent items.
#![cfg_attr(not(all(feature = "full", feature = "gateway")), allow(rustdoc::broken_intra_doc_links))]

/// Implements `Debug` as the name alone, for types whose fields have none.
macro_rules! opaque_debug {
    ($($name:ident $(<$($parameter:ident),+>)?),+) => {$(
        impl $(<$($parameter),+>)? ::std::fmt::Debug for $name $(<$($parameter),+>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+};
}
#[allow(unused_imports, reason = "features select the types")]
use opaque_debug;

pub mod api_key;
#[cfg(feature = "circuit-breaker")]
pub mod circuit_breaker;
pub mod client_address;
pub mod client_certificate;
#[cfg(feature = "concurrency-limiter")]
pub mod concurrency_limiter;
pub mod context;
mod cookie;
#[cfg(feature = "cors")]
pub mod cors;
#[cfg(any(feature = "verify-api-key", feature = "jwt"))]
mod digest_cache;
#[cfg(feature = "edit")]
pub mod edit;
#[cfg(feature = "gateway")]
pub mod fallback_headers;
pub mod fault;
pub mod filter;
pub mod headers;
#[cfg(any(feature = "local-response-cache", feature = "retry"))]
mod http_date;
#[cfg(feature = "jwt")]
pub mod jwt;
pub mod key_resolver;
#[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
pub mod limiter_builder;
#[cfg(feature = "local-response-cache")]
pub mod local_response_cache;
#[cfg(any(
    feature = "concurrency-limiter",
    feature = "local-response-cache",
    feature = "request-counter",
    feature = "request-rate-limiter"
))]
mod observed_body;
mod percent;
#[cfg(not(feature = "gateway"))]
mod query;
#[cfg(feature = "gateway")]
pub mod query;
#[cfg(feature = "redirect-to")]
pub mod redirect_to;
pub mod refusal;
pub mod refusal_body;
#[cfg(feature = "remove-json-attributes")]
pub mod remove_json_attributes;
mod repeated;
#[cfg(any(feature = "circuit-breaker", feature = "retry"))]
pub mod replay;
pub mod reply;
#[cfg(feature = "request-counter")]
pub mod request_counter;
pub mod request_filter;
#[cfg(feature = "request-header-size")]
pub mod request_header_size;
#[cfg(feature = "request-rate-limiter")]
pub mod request_rate_limiter;
#[cfg(feature = "request-size")]
pub mod request_size;
#[cfg(feature = "require-key")]
pub mod require_key;
pub mod response_filter;
#[cfg(feature = "retry")]
pub mod retry;
#[cfg(feature = "secure-headers")]
pub mod secure_headers;
#[cfg(feature = "set-status")]
pub mod set_status;
#[cfg(feature = "verify-api-key")]
pub mod verify_api_key;
#[cfg(any(feature = "verify-api-key", feature = "concurrency-limiter", feature = "request-rate-limiter"))]
mod wait;

pub use tollgate_limiter as limiter;
