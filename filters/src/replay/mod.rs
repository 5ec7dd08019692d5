//! What it takes to run a request more than once: its body again, and the headers that filters added meanwhile.
//!
//! [`record`] hands a body on as it comes and remembers its first bytes, up to a bound. While it stays within the bound
//! [`Recording::replay`] gives it out again from its beginning: first what was read already, then what still comes. What
//! is larger streams as though nobody recorded it, and is sent once. Costs a copy of the remembered bytes for each turn,
//! and nothing for a request without a body.
//!
//! `Carried` and [`ReceivedLayer`] keep apart what an upstream said in an answer that is dropped, which is forgotten, and
//! what filters added to it, which stays, as in Spring Cloud Gateway.

mod body;
mod headers;

pub use self::body::{Recording, ReplayBody, ReplayError, record};
pub(crate) use self::headers::{Carried, left_over, mark_received};
pub use self::headers::{Received, ReceivedLayer, ResponseFuture};
