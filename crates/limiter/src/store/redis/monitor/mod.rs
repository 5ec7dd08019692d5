//! Monitoring: heartbeats of gateways, and the servers' `INFO`.

mod heartbeat;
mod info;

pub use self::heartbeat::Heartbeat;
pub use self::info::ServerInfo;
