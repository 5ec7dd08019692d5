//! State that gateways share beside buckets: heartbeats and overrides; and the servers' `INFO`.

mod heartbeat;
mod info;
mod overrides;

pub use self::heartbeat::Heartbeat;
pub use self::info::ServerInfo;
pub use self::overrides::{OverrideTable, SharedOverride};
