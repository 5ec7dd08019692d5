//! The far side: connections to upstreams, what is sent over them, and what comes back.

pub mod balance;
pub mod echo;
pub mod endpoints;
pub mod error;
pub mod exchange;
pub mod forward;
pub mod forwarded;
pub mod headers;
pub mod origin;
pub mod pool;
pub mod pools;
pub mod request;
pub mod upgrade;
