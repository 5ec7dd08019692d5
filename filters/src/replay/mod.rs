//! Support for running a request more than once: replaying its body, and keeping headers that filters added.
//!
//! [`record`] forwards a body and records its first bytes, up to a limit. Within the limit [`Recording::replay`] returns
//! the body from its beginning: first the recorded bytes, then the rest as it arrives. A larger body streams without a
//! recording and is sent once. Costs a copy of the recorded bytes for each attempt, and nothing for a request without a
//! body.
//!
//! `CarriedHeaders` and [`ReceivedHeadersLayer`] separate the headers of a discarded response: those of the upstream are
//! dropped, and those that filters added are kept, as in Spring Cloud Gateway.

mod body;
mod headers;
mod reader;
#[cfg(test)]
mod tests;

pub use self::body::{BodyWait, Recording, ReplayBody, record};
pub use self::headers::ReceivedHeadersLayer;
#[cfg(feature = "circuit-breaker")]
pub(crate) use self::headers::mark_received;
pub(crate) use self::headers::{CarriedHeaders, take_added_headers};
pub use self::reader::ReplayError;
