//! State that outlives a configuration: a reload replaces routes and layers, and keeps everything in here.
//!
//! - [`api_keys`]: guesses and use of API keys;
//! - [`stores`]: buckets, concurrency slots and usage counts, in memory and in Redis;
//! - [`filters`]: circuit breakers and response caches, shared by all workers;
//! - [`overrides`]: temporary overrides of limits;
//! - [`redis_servers`] and [`redis_monitor`]: what Redis servers report, the number of live gateways, and the task that writes
//!   usage to Redis;
//! - `jwks` (feature `jwt`): the task that refreshes token verification keys.

pub mod api_keys;
pub mod clock;
pub mod filters;
#[cfg(feature = "jwt")]
pub mod jwks;
pub mod overrides;
pub mod redis_monitor;
pub mod redis_servers;
pub mod stores;
