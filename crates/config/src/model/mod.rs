//! The checked configuration: plain data, every value valid.

mod config;
mod filters;
mod forwarding;
mod http_client;
#[cfg(feature = "jwt")]
mod jwt;
mod logging;
mod management;
mod naming;
mod rate_limiter;
mod redis;
mod route;
mod scheme;
mod server;
mod target;
mod upstreams;

pub use config::{Config, Memory, Metering};
pub use filters::{CircuitBreaker, ConcurrencyLimiter, Filter, Forward, Place, RequestCounter, ResponseCache};
pub use forwarding::{ForwardedHeaders, Forwarding, Tell, TrustedProxies, Underscores};
pub use http_client::{
    ConnectionPool, Http2, HttpClient, Identity, Leasing, Proxy, ProxyKind, ProxyLogin, Tls, TlsVersion, Trust,
};
#[cfg(feature = "jwt")]
pub use jwt::{Jwt, KeySource};
pub use logging::{AccessLog, AccessLogFormat, LogFormat, LogOutput, Logging};
pub use management::{Actuator, Management, RequestSeries};
pub use naming::{NamedLimit, Naming};
pub use rate_limiter::{
    Atomicity, GatewayNumber, Limit, LockRetry, PlanResolver, Plans, RateLimiter, Rules, StoreKind,
};
pub use redis::Redis;
pub use route::{Cors, Definition, Route, RouteCors};
pub use scheme::Scheme;
pub use server::{Server, ServerTls};
pub use target::Target;
pub use upstreams::{
    Balance, Dns, DnsQuery, Ejection, EndpointAddress, EndpointSource, HealthCheck, ListedEndpoint, Records, Statuses,
    Upstream,
};
