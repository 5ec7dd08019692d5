//! In Redis, shared by all gateways: one script call a decision, on few multiplexed connections.
//!
//! Every step has a bound. A decision waits for at most [`RedisSettings::timeout`], whatever Redis does: then, and at
//! once while no connection is live or the breaker is open, the store's [`OnStoreFailure`](super::OnStoreFailure)
//! decides. A call that timed out is never sent again, since it may have taken its tokens. Connections are replaced in
//! the background, so recovery needs no request to wait for it.
//!
//! Who logs in ([`Login`]) needs `SCRIPT LOAD` and `EVALSHA`, and what the scripts do with their keys:
//!
//! | For | Commands | Keys |
//! |---|---|---|
//! | `token-bucket` | `TIME MGET SETEX` | `request_rate_limiter.*` |
//! | `gcra`, `fixed-window`, `sliding-window-counter`, `leaky-bucket` | `TIME GET SET` | `gcra.*`, `window.*`, `counter.*`, `leaky.*` |
//! | `sliding-window-log` | `TIME ZADD ZCOUNT ZREVRANGE ZREMRANGEBYSCORE ZREMRANGEBYRANK PEXPIRE` | `log.*` |
//! | `quota` | `TIME GET SET DEL` | `quota.*` |
//! | several rules on one limiter | `TIME GET SET`, and those of logs and quotas | `rules.*`, `log.*`, `quota.*` |
//! | [`RedisLeases`](crate::concurrency::redis::RedisLeases) | `TIME ZADD ZCOUNT ZSCORE ZRANGEBYSCORE ZREVRANGE ZREM ZREMRANGEBYSCORE PEXPIRE` | `concurrency_limiter.*` |
//! | [`Flusher`](crate::metering::Flusher) | `GET SET HGET HINCRBY EXPIRE TTL` | `request_counter.*` |
//! | [`RedisPlans`] | `HGET` | the hash |
//! | [`LockedStore`] | instead of scripts, `SET GET DEL TIME WATCH UNWATCH MULTI EXEC PING` | `window.*`, `counter.*` |
//! | [`Servers::Sentinel`] | `ROLE`; on Sentinels `SENTINEL GET-MASTER-ADDR-BY-NAME` and `SENTINEL MASTER` | |
//! | [`Servers::Cluster`] | `CLUSTER SLOTS`, `ASKING`, and `SET` for what is made of two strings | |
//! | a database other than 0 | `SELECT` | |
//!
//! `CLIENT SETINFO`, which names this library in `CLIENT LIST`, is of no consequence.
//!
//! Cost of a decision: one round trip (`EVALSHA`; in it `MGET`, `TIME` and, if allowed, two `SETEX`), one boxed future.

mod apart;
mod batch;
mod breaker;
mod call;
mod client;
mod cluster;
mod compose;
mod connect;
mod dial;
mod error;
mod exchange;
mod fallback;
mod hash_slot;
mod heartbeat;
mod hot;
mod info;
mod link;
mod locked;
mod many;
mod names;
mod node;
mod operands;
mod place;
mod plans;
mod primary;
mod redirect;
mod route;
mod script;
mod settings;
mod shared;
mod stats;
mod status;
mod stocks;
mod store;
mod supervisor;
mod ticket;
mod tls;
mod words;

pub use self::breaker::{BreakerState, Breakers};
pub use self::client::RedisClient;
pub use self::error::StoreError;
pub(crate) use self::hash_slot::HashSlot;
pub use self::heartbeat::{GatewayCount, Gateways, Heartbeat};
pub use self::hot::CallSizes;
pub use self::info::ServerInfo;
pub use self::locked::{LockSettings, LockStats, LockedStatus, LockedStore, Retry};
pub(crate) use self::many::Unanswered;
pub use self::names::key_names;
pub use self::plans::RedisPlans;
pub(crate) use self::script::Script;
pub use self::settings::{HostPort, Login, RedisSettings, RedisSettingsError, Sentinel, Servers, Tls};
pub use self::stats::{Latencies, Operation, RedisStats};
pub use self::status::{NodeStatus, RedisStatus};
pub use self::store::RedisStore;
pub(crate) use self::supervisor::jittered;
