//! TODO-DOC

pub(crate) mod cors;
pub mod forwarding;
pub(crate) mod http_client;
pub mod jwt;
pub mod management;
pub(crate) mod redis;
pub(crate) mod resilience;
pub(crate) mod response_cache;
pub mod server;
pub(crate) mod tls;
pub(crate) mod upstreams;
