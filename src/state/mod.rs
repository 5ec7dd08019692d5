//! TODO-DOC

pub mod circuit_breakers;
#[cfg(feature = "jwt")]
pub mod jwks;
pub mod metering;
pub mod redis_monitor;
pub mod response_caches;
pub mod stores;
