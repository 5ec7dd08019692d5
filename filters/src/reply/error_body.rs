//! Bodies of refusals.

use std::sync::Arc;

use super::template::Template;

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
