//! Checked settings of Redis.

use tollgate_limiter::store::redis::RedisSettings;

/// Redis, the store of limits for several gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Servers and connections. Its `Debug` shows no password.
    pub settings: RedisSettings,
    /// Writes key ids as hashes.
    pub hash_keys: bool,
    /// Enables the denial cache.
    pub denial_cache: bool,
    /// Enables coalescing.
    pub coalesce: bool,
}
