//! Rate limiting and request filters as [tower] layers.
//!
//! Every layer here works in anyone's tower or axum service: nothing in this crate knows the Tollgate gateway, its
//! YAML or its server. One layer a file; the limiter behind [`RequestRateLimiterLayer`] has rooms of its own in
//! [`limiter`].
//!
//! | Layer | Does | May answer itself |
//! |---|---|---|
//! | [`RequestRateLimiterLayer`] | holds each key to one or several rules | 429, 403 without a key or blocked, 503 |
//! | [`RequestCounterLayer`] | counts use by key, for bills and statistics | never |
//! | [`ConcurrencyLimiterLayer`] | holds each key to so many requests at once | 429, 403 without a key, 503 |
//! | [`EditLayer`] | edits paths, queries, headers, targets, a run in one service | 500, 400 where a variable does not fit |
//! | [`EditLayer`] | edits paths, queries, headers and targets | 500, 400 where a variable does not fit |
//! | [`RedirectToLayer`] | redirects | always, 3xx |
//! | [`RequestSizeLayer`] | bounds request bodies, by announcement and by counting | 413 |
//! | [`SetStatusLayer`] | replaces the upstream's status | never |
//! | [`SecureHeadersLayer`] | adds headers that make browsers careful | never |
//! | [`RequestHeaderSizeLayer`] | bounds each request header | 431 |
//! | [`RemoveJsonAttributesLayer`] | takes attributes out of JSON answers | 500, 502 where it cannot |
//! | [`LocalResponseCacheLayer`] | keeps answers in memory | what it kept, 304 |
//! | [`CorsLayer`] | answers preflights, adds `Access-Control-*` | 200, 403 |
//! | [`RetryLayer`] | repeats requests that failed | never |
//! | [`CircuitBreakerLayer`] | asks an upstream that fails no more, for a while | 503 open, 504 too late |
//! | [`FallbackHeadersLayer`] | tells the fallback of a breaker what went wrong | never |
//!
//! What a filter needs to know of a request beyond its head is in [`context::RequestContext`]. What it answers
//! itself carries [`context::LocalReply`]. Regular expressions are Java's, as Spring Cloud Gateway writes them:
//! [`java_regex`].
//!
//! [tower]: https://docs.rs/tower
//! [`RequestRateLimiterLayer`]: request_rate_limiter::RequestRateLimiterLayer
//! [`RequestCounterLayer`]: request_counter::RequestCounterLayer
//! [`ConcurrencyLimiterLayer`]: concurrency_limiter::ConcurrencyLimiterLayer
//! [`EditLayer`]: edit::EditLayer
//! [`RedirectToLayer`]: redirect_to::RedirectToLayer
//! [`RequestSizeLayer`]: request_size::RequestSizeLayer
//! [`SetStatusLayer`]: set_status::SetStatusLayer
//! [`SecureHeadersLayer`]: secure_headers::SecureHeadersLayer
//! [`RequestHeaderSizeLayer`]: request_header_size::RequestHeaderSizeLayer
//! [`RemoveJsonAttributesLayer`]: remove_json_attributes::RemoveJsonAttributesLayer
//! [`LocalResponseCacheLayer`]: local_response_cache::LocalResponseCacheLayer
//! [`CorsLayer`]: cors::CorsLayer
//! [`RetryLayer`]: retry::RetryLayer
//! [`CircuitBreakerLayer`]: circuit_breaker::CircuitBreakerLayer
//! [`FallbackHeadersLayer`]: fallback_headers::FallbackHeadersLayer

pub mod circuit_breaker;
pub mod concurrency_limiter;
pub mod context;
pub mod cors;
pub mod edit;
pub mod fallback_headers;
pub mod fault;
pub mod headers;
#[cfg(feature = "jwt")]
pub mod jwt;
pub mod key_resolver;
pub mod local_response_cache;
mod percent;
pub mod redirect_to;
pub mod remove_json_attributes;
pub mod replay;
pub mod reply;
pub mod request_counter;
pub mod request_header_size;
pub mod request_rate_limiter;
pub mod request_size;
mod response_future;
pub mod retry;
pub mod secure_headers;
pub mod set_status;
