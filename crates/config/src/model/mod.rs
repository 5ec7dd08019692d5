//! The checked configuration: plain data, every value valid.

use std::sync::Arc;

pub use crate::concurrency_limiter::ConcurrencyLimiter;
pub use crate::filters::model::{CircuitBreaker, Filter, Forward, Place, ResponseCache};
pub use crate::rate_limiter::{
    Atomicity, GatewayNumber, Limit, LockRetry, NamedLimit, Naming, PlanResolver, Plans, RateLimiter, Rules, StoreKind,
};
pub use crate::request_counter::RequestCounter;
pub use crate::routes::model::{Cors, Definition, Route, Target};
pub use crate::sections::access_log::{AccessLog, AccessLogFormat, LogOutput};
pub use crate::sections::cors::RouteCors;
pub use crate::sections::forwarding::model::{ForwardedHeaders, Forwarding, Tell, TrustedProxies, Underscores};
pub use crate::sections::http_client::model::{
    ConnectionPool, Http2, HttpClient, Identity, Leasing, Proxy, ProxyKind, ProxyLogin, Tls, TlsVersion, Trust,
};
pub use crate::sections::log::{LogFormat, Logging};
pub use crate::sections::management::model::{Actuator, Management, RequestSeries};
pub use crate::sections::memory::Memory;
pub use crate::sections::metering::Metering;
pub use crate::sections::redis::model::Redis;
pub use crate::sections::server::model::{Server, ServerTls};
pub use crate::sections::upstreams::Scheme;
use crate::sections::upstreams::{Dns, Upstream};

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
    pub jwt: Option<crate::Jwt>,
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
