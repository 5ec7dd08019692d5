//! Responses that filters make themselves: rendered once at load, copied for each request.

mod accept;
mod error_body;
#[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
mod json;
#[cfg(any(
    feature = "circuit-breaker",
    feature = "concurrency-limiter",
    feature = "edit",
    feature = "remove-json-attributes",
    feature = "request-rate-limiter",
    feature = "require-key"
))]
mod prepared;
#[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
mod refusals;
#[cfg(feature = "request-rate-limiter")]
mod render;
mod template;

pub use self::accept::prefers_problem;
pub use self::error_body::ErrorBody;
#[cfg(any(
    feature = "circuit-breaker",
    feature = "concurrency-limiter",
    feature = "edit",
    feature = "remove-json-attributes",
    feature = "request-rate-limiter",
    feature = "require-key"
))]
pub(crate) use self::prepared::Reply;
#[cfg(feature = "request-rate-limiter")]
pub(crate) use self::render::DenialFacts;
pub use self::template::Template;
