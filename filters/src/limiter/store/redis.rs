//! In Redis, shared by all gateways: one script call a decision, on few multiplexed connections.
//!
//! Every step has a bound. A decision waits for at most [`RedisSettings::timeout`], whatever Redis does: then, and at
//! once while no connection is live or the [`Breaker`] is open, the store's [`OnStoreFailure`](super::OnStoreFailure)
//! decides. A call that timed out is never sent again, since it may have taken its tokens. Connections are replaced in
//! the background, so recovery needs no request to wait for it.
//!
//! Cost of a decision: one round trip (`EVALSHA`; in it `MGET`, `TIME` and, if allowed, two `SETEX`), one boxed future.

mod breaker;
mod call;
mod client;
mod compose;
mod connection;
mod error;
mod fallback;
mod hot;
mod locked;
mod operands;
mod plans;
mod script;
mod settings;
mod status;
mod stocks;
mod store;
mod supervisor;
mod ticket;

pub use self::breaker::{Breaker, BreakerState};
pub use self::client::RedisClient;
pub use self::error::StoreError;
pub use self::hot::CallSizes;
pub use self::locked::{LockSettings, LockedStatus, LockedStore, Retry};
pub use self::plans::RedisPlans;
pub(crate) use self::script::Script;
pub use self::settings::{RedisSettings, RedisSettingsError};
pub use self::status::RedisStatus;
pub use self::store::RedisStore;
pub(crate) use self::supervisor::jittered;
