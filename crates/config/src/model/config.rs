//! The configuration as a whole.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::model::forwarding::Forwarding;
use crate::model::http_client::HttpClient;
use crate::model::logging::{AccessLog, Logging};
use crate::model::management::{Management, RequestSeries};
use crate::model::redis::Redis;
use crate::model::route::{Cors, Route};
use crate::model::server::Server;
use crate::model::upstreams::{Dns, Upstream};

/// Everything the gateway runs by.
#[derive(Clone, Debug)]
pub struct Config {
    /// The listener for traffic.
    pub server: Server,
    /// The listener for health, metrics and the API.
    pub management: Management,
    /// Where limits are kept; `None`: in memory.
    pub redis: Option<Redis>,
    /// Whose tokens `jwt:CLAIM` believes.
    #[cfg(feature = "jwt")]
    pub jwt: Option<crate::model::jwt::Jwt>,
    /// Limits kept in memory.
    pub memory: Memory,
    /// Counts of use on their way to Redis.
    pub metering: Metering,
    /// One line a request.
    pub access_log: AccessLog,
    /// The gateway's own log.
    pub logging: Logging,
    /// How requests are counted.
    pub request_series: RequestSeries,
    /// Which headers are believed, kept and added.
    pub forwarding: Forwarding,
    /// Connections to upstreams.
    pub http_client: HttpClient,
    /// Who is asked for endpoints.
    pub dns: Dns,
    /// What `lb://` leads to.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Whether a request for which no endpoint lives is answered 404 instead of 503.
    pub use404: bool,
    /// Who may ask from other origins.
    pub cors: Cors,
    /// Enabled routes in the order in which they are tried.
    pub routes: Vec<Route>,
    /// Whether the file is an application.yml of Spring's.
    pub is_spring: bool,
}

/// Limits kept in memory.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Keys that are told apart at most.
    pub max_keys: NonZeroUsize,
}

/// Counts of use on their way to Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metering {
    /// How often they are sent.
    pub flush_every: Duration,
    /// Counts that are told apart in memory at most.
    pub max_cells: NonZeroUsize,
    /// Batches that may wait for Redis at once.
    pub retry_queue: NonZeroUsize,
}
