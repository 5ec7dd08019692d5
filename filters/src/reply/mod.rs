//! Responses that filters make themselves: rendered once at load, copied for each request.

use std::sync::Arc;

mod accept;
#[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
mod json;
#[cfg(any(
    feature = "verify-api-key",
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
#[cfg(any(
    feature = "verify-api-key",
    feature = "circuit-breaker",
    feature = "concurrency-limiter",
    feature = "edit",
    feature = "remove-json-attributes",
    feature = "request-rate-limiter",
    feature = "require-key"
))]
pub(crate) use self::prepared::Reply;
#[cfg(feature = "request-rate-limiter")]
pub(crate) use self::prepared::body_for;
#[cfg(feature = "request-rate-limiter")]
pub(crate) use self::render::DenialFacts;
pub use self::template::{Template, TemplateError};

/// Body of refusals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ErrorBody {
    /// A problem (RFC 9457) for clients that ask for JSON, a line of plain text for others.
    #[default]
    Problem,
    /// No body, as in Spring.
    Empty,
    /// A custom body for denials of a rate limiter. Other refusals are as with [`Problem`](Self::Problem).
    Template(Arc<Template>),
}
