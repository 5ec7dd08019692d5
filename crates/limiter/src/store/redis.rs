//! Store in Redis, shared by all gateways: one script call for each decision, on few multiplexed connections.
//!
//! Every step is bounded. A decision waits at most for [`RedisSettings::timeout`]. Past the deadline, and at once while no
//! connection is live or the circuit breaker is open, the store's [`OnStoreFailure`](super::OnStoreFailure) decides. A
//! call that timed out is not sent again, since it may have taken its tokens. Background tasks replace lost connections,
//! so recovery needs no waiting request.
//!
//! The modules, each of which imports only modules before it:
//!
//! | Module | Content |
//! |---|---|
//! | `connection_settings` `error` `breaker` `stats` `invalidation` `gateways` `turns` … | plain data |
//! | `script` | Lua scripts, and their composition for several rules or callers |
//! | `command` | keys and arguments of calls; decoding of replies |
//! | `connection` | TLS, handshake, sending, batching |
//! | `topology` | nodes and their supervisors; Sentinel; Cluster |
//! | `client` | requests with deadlines, redirections and outcomes |
//! | `hot_keys` | denial cache, coalescing, leases |
//! | `store` | [`RedisStore`], prepaid quotas, plans |
//! | `lock` | [`LockedStore`] |
//! | `monitor` | heartbeats, overrides and `INFO` |
//!
//! # Permissions (ACL)
//!
//! The user ([`Login`]) needs `EVALSHA` and `EVAL` (or `SCRIPT LOAD`), and the commands that scripts run on their keys, whose
//! names begin with [`RedisSettings::key_prefix`]:
//!
//! | For | Commands | Keys |
//! |---|---|---|
//! | `token-bucket` | `TIME MGET SETEX` | `request_rate_limiter.*` |
//! | `gcra`, `fixed-window`, `sliding-window-counter`, `leaky-bucket` | `TIME GET SET` | `gcra.*`, `window.*`, `counter.*`, `leaky.*` |
//! | `sliding-window-log` | `TIME ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZRANK ZREVRANGE ZREMRANGEBYRANK PEXPIRE` | `entries.*` |
//! | `quota` | `TIME GET SET DEL` | `quota.*` |
//! | several rules on one limiter | `TIME GET SET`, and those of rules with keys of their own | `rules.*`, and theirs |
//! | [`RedisSlots`](crate::concurrency::redis::RedisSlots) | `TIME ZADD ZCOUNT ZSCORE ZRANGEBYSCORE ZREVRANGE ZREM ZREMRANGEBYRANK PEXPIRE` | `concurrency_limiter.*` |
//! | [`Flusher`](crate::metering::Flusher) | `GET SET HGET HINCRBY EXPIRE TTL` | `request_counter.*` |
//! | [`RedisPlans`] | `HGET` | the hash |
//! | leases, on a change by an operator | `TIME SET` | those of the rule |
//! | temporary overrides | `TIME HMGET HGET HGETALL HSET HDEL PEXPIRE` | `tollgate.overrides` |
//! | [`LockedStore`] | instead of scripts, `SET GET DEL TIME WATCH UNWATCH MULTI EXEC PING` | `window.*`, `counter.*` |
//! | [`Servers::Sentinel`] | `ROLE`; on Sentinels `SENTINEL GET-MASTER-ADDR-BY-NAME` and `SENTINEL MASTER` | |
//! | [`Servers::Cluster`] | `CLUSTER SLOTS`, `ASKING`, and `SET` for buckets of two strings | |
//! | a database other than 0 | `SELECT` | |
//!
//! Cost of a decision: one round trip (`EVALSHA`; in it `MGET`, `TIME` and, if allowed, two `SETEX`), one boxed future.

mod breaker;
mod client;
mod command;
mod connection;
mod connection_settings;
mod error;
mod gateways;
mod hash_slot;
mod hot_keys;
mod invalidation;
mod lock;
#[cfg(feature = "gateway")]
mod monitor;
mod random;
mod script;
mod stats;
mod store;
mod topology;
mod turns;

pub use self::breaker::{BreakerState, Breakers};
pub use self::client::{RedisClient, RedisStatus, Unanswered};
#[cfg(feature = "gateway")]
pub use self::command::{key_names, script_reply};
pub use self::connection_settings::{
    Authorities, ClientCertificate, HostPort, KeyStoreFile, Login, RedisSettings, RedisSettingsError, Sentinel,
    Servers, Tls,
};
pub(crate) use self::error::no_advice;
pub use self::error::{Advice, StoreError};
pub use self::gateways::{GatewayCount, Gateways};
pub(crate) use self::hash_slot::HashSlot;
pub use self::lock::{LockSettings, LockStats, LockedStore, Retry};
#[cfg(feature = "gateway")]
pub use self::monitor::{Heartbeat, OverrideTable, ServerInfo, SharedOverride};
pub(crate) use self::random::jittered;
pub(crate) use self::script::Script;
pub use self::stats::{Counter, FailureCounts, Histogram, Operation, RedisStats};
pub use self::store::{HashPage, RedisConnectError, RedisHash, RedisPlans, RedisStore};
pub use self::topology::NodeStatus;
#[cfg(feature = "gateway")]
pub use self::topology::ProbeFailure;

/// Whole microseconds of `time`.
fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
