//! Layers through their public API, on mock inner services.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "layers/builder.rs"]
mod builder;
#[path = "layers/compositions.rs"]
mod compositions;
#[path = "layers/concurrency_limiter.rs"]
mod concurrency_limiter;
#[path = "layers/edit.rs"]
mod edit;
#[path = "layers/inner_services.rs"]
mod inner_services;
#[path = "layers/key_resolver.rs"]
mod key_resolver;
#[path = "layers/pacing.rs"]
mod pacing;
#[path = "layers/policies.rs"]
mod policies;
#[path = "layers/rate_limiter.rs"]
mod rate_limiter;
#[path = "layers/refusals.rs"]
mod refusals;
#[path = "layers/request_counter.rs"]
mod request_counter;
#[path = "layers/rewrite_path.rs"]
mod rewrite_path;
#[path = "layers/small_filters.rs"]
mod small_filters;
#[path = "layers/support.rs"]
mod support;
#[path = "layers/targets.rs"]
mod targets;
#[path = "layers/user_keys.rs"]
mod user_keys;
