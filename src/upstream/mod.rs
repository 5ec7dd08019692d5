//! The far side: connections to upstreams, what is sent over them, and what comes back.

pub mod echo;
pub mod error;
pub mod forward;
pub mod forwarded;
pub mod headers;
pub mod pool;
pub mod upgrade;
