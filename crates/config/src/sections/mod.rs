//! The sections of the configuration: raw shape and check of each.

pub(crate) mod cors;
pub(crate) mod forwarding;
pub(crate) mod http_client;
pub(crate) mod jwt;
pub(crate) mod key_resolvers;
pub(crate) mod logging;
pub(crate) mod management;
pub(crate) mod metering;
pub(crate) mod pem;
pub(crate) mod redis;
pub(crate) mod resilience;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod upstreams;
