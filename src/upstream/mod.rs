//! The far side: connections to upstreams, what is sent over them, and what comes back.

pub mod balance;
mod body;
pub mod dynamic_target;
pub mod echo;
pub mod error;
pub mod exchange;
pub mod forward;
pub mod forwarded;
pub mod headers;
pub mod origin;
pub mod pick;
pub mod pool;
pub mod pools;
pub mod proxy;
pub mod request;
pub mod tls;
pub mod upgrade;
