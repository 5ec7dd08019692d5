//! In Redis, shared by all gateways: one script call a decision, on few multiplexed connections.
//!
//! Every step has a bound. A decision waits for at most [`RedisSettings::timeout`], whatever Redis does: then, and at
//! once while no connection is live or the breaker is open, the store's [`OnStoreFailure`](super::OnStoreFailure)
//! decides. A call that timed out is never sent again, since it may have taken its tokens. Connections are replaced in
//! the background, so recovery needs no request to wait for it.
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
mod fallback;
mod hash_slot;
mod heartbeat;
mod info;
mod link;
mod locked;
mod many;
mod node;
mod operands;
mod plans;
mod primary;
mod redirect;
mod route;
mod script;
mod settings;
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
pub use self::info::ServerInfo;
pub use self::locked::{LockSettings, LockStats, LockedStatus, LockedStore, Retry};
pub(crate) use self::many::Unanswered;
pub use self::plans::RedisPlans;
pub(crate) use self::script::Script;
pub use self::settings::{HostPort, Login, RedisSettings, RedisSettingsError, Sentinel, Servers, Tls};
pub use self::stats::{Latencies, Operation, RedisStats};
pub use self::status::{NodeStatus, RedisStatus};
pub use self::store::RedisStore;
pub(crate) use self::supervisor::jittered;
