//! Responses that filters make themselves: rendered once at load, copied for each request.

mod accept;
mod error_body;
mod prepared;
mod template;

pub use self::accept::prefers_problem;
pub use self::error_body::ErrorBody;
pub(crate) use self::prepared::Reply;
pub(crate) use self::template::DenialFacts;
pub use self::template::Template;
