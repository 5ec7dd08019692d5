//! Rate limiting and request filters as [tower] layers.
//!
//! Every layer here works in anyone's tower or axum service: nothing in this crate knows the Tollgate gateway, its
//! YAML or its server. One layer a file; the limiter behind [`RequestRateLimiterLayer`] has rooms of its own in
//! [`limiter`].
//!
//! [tower]: https://docs.rs/tower
//! [`RequestRateLimiterLayer`]: request_rate_limiter::RequestRateLimiterLayer

pub mod context;
pub mod limiter;
