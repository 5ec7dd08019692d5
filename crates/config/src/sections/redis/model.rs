//! Checked settings of Redis.

use tollgate_limiter::store::redis::RedisSettings;

/// Where limits are kept across gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Which servers there are, and how to reach them. Its `Debug` shows no password.
    pub settings: RedisSettings,
    /// Whether key ids are written as hashes.
    pub hash_keys: bool,
    /// Whether denials are remembered.
    pub denial_cache: bool,
    /// Whether equal requests at one time go together.
    pub coalesce: bool,
}
