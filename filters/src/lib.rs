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
//! | [`EditLayer`] | edits headers and paths, a run of edits in one service | 500, 400 where a variable does not fit |
//! | [`RedirectToLayer`] | redirects | always, 3xx |
//! | [`RequestSizeLayer`] | bounds request bodies, by announcement and by counting | 413 |
//! | [`SetStatusLayer`] | replaces the upstream's status | never |
//!
//! What a filter needs to know of a request beyond its head is in [`context::RequestContext`]. What it answers
//! itself carries [`context::LocalReply`].
//!
//! [tower]: https://docs.rs/tower
//! [`RequestRateLimiterLayer`]: request_rate_limiter::RequestRateLimiterLayer
//! [`RequestCounterLayer`]: request_counter::RequestCounterLayer
//! [`ConcurrencyLimiterLayer`]: concurrency_limiter::ConcurrencyLimiterLayer
//! [`EditLayer`]: edit::EditLayer
//! [`RedirectToLayer`]: redirect_to::RedirectToLayer
//! [`RequestSizeLayer`]: request_size::RequestSizeLayer
//! [`SetStatusLayer`]: set_status::SetStatusLayer

pub mod concurrency_limiter;
pub mod context;
pub mod edit;
pub mod headers;
pub mod java_regex;
#[cfg(feature = "jwt")]
pub mod jwt;
pub mod key_resolver;
pub mod limiter;
pub mod metering;
mod percent;
pub mod redirect_to;
pub mod reply;
pub mod request_counter;
pub mod request_rate_limiter;
pub mod request_size;
pub mod set_status;
mod sync;
