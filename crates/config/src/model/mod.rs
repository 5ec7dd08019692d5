//! The checked configuration: plain data, every value valid.

use std::sync::Arc;

pub use crate::filters::model::{
    CircuitBreaker, ConcurrencyLimiter, Filter, FilterPosition, FilterProperties, Forward, RequestCounter,
    ResponseCache,
};
pub use crate::filters::plain::{OwnResponses, PlainFilter};
pub use crate::key_resolvers::RepeatedKeys;
pub use crate::rate_limiter::{
    Atomicity, GatewayNumber, Limit, LockRetry, NamedLimit, Naming, PlanResolver, Plans, RateLimiter, RouteConditions,
    Rules, StoreKind, When,
};
pub use crate::routes::model::{Cors, Definition, Route, Target};
pub use crate::sections::Secret;
pub use crate::sections::api_keys::{ApiKeyStore, ApiKeys};
pub use crate::sections::cors::RouteCors;
pub use crate::sections::files::ConfigFiles;
pub use crate::sections::forwarding::{ForwardedHeaders, Forwarding, HeaderAction, TrustedProxies, Underscores};
pub use crate::sections::http_client::proxy::{Proxy, ProxyKind, ProxyLogin};
pub use crate::sections::http_client::{ConnectionPool, Leasing};
pub use crate::sections::http_client::{Http2, HttpClient};
pub use crate::sections::logs::{AccessLog, AccessLogFormat, LogFormat, LogOutput, Logging, RequestId};
pub use crate::sections::management::check::KeyHashing;
pub use crate::sections::management::model::{Actuator, Management, RequestSeries, TrafficEndpoints};
pub use crate::sections::management::server::{AdminSocket, OuterOrigin};
pub use crate::sections::management::tokens::{AdminRole, AdminTokens};
pub use crate::sections::management::tracing::{OtlpExport, TraceFormat};
pub use crate::sections::memory::{Memory, Metering};
pub use crate::sections::proxy_protocol::ProxyProtocol;
pub use crate::sections::redis::{LimiterStoreOptions, Redis};
pub use crate::sections::registries::consul::Consul;
pub use crate::sections::registries::eureka::Eureka;
pub use crate::sections::registries::kubernetes::{Kubernetes, KubernetesToken};
pub use crate::sections::registries::nacos::Nacos;
pub use crate::sections::registries::registration::RegisteredInstance;
pub use crate::sections::registries::server::RegistryServer;
pub use crate::sections::registries::{Registration, Registry};
pub use crate::sections::server::{Server, ServerHttp2};
pub use crate::sections::tls::acme::Acme;
pub use crate::sections::tls::acme::{ACME_TLS, ChallengeAnswer, challenge_response};
pub use crate::sections::tls::client::{Identity, Tls, TlsVersion, Trust};
pub use crate::sections::tls::client_auth::ForwardClientCert;
pub use crate::sections::tls::server::ServerTls;
pub use crate::sections::upstreams::balance::Balance;
pub use crate::sections::upstreams::discovered::ServiceQuery;
pub use crate::sections::upstreams::dns::{Dns, DnsQuery, DnsServer, Records};
pub use crate::sections::upstreams::endpoints::{EndpointAddress, ListedEndpoint, Scheme};
pub use crate::sections::upstreams::health::{CheckHost, CheckPath, Ejection, HealthCheck, Statuses};
pub use crate::sections::upstreams::{EndpointSource, Upstream};

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Listener for traffic.
    pub server: Server,
    /// Listener for health, metrics and the admin API.
    pub management: Management,
    /// Redis store; `None` keeps limits in memory.
    pub redis: Option<Redis>,
    /// Verification of tokens for `jwt:CLAIM`.
    #[cfg(feature = "jwt")]
    pub jwt: Option<crate::Jwt>,
    /// Files of the configuration.
    pub files: ConfigFiles,
    /// API keys that are verified.
    pub api_keys: Option<ApiKeys>,
    /// Memory store of limits.
    pub memory: Memory,
    /// Transfer of request counts to Redis.
    pub metering: Metering,
    /// Access log.
    pub access_log: AccessLog,
    /// Request ids.
    pub request_id: RequestId,
    /// Log of the gateway.
    pub logging: Logging,
    /// Metrics of routed requests.
    pub request_series: RequestSeries,
    /// Trusted proxies and forwarded headers.
    pub forwarding: Forwarding,
    /// Connections to upstreams.
    pub http_client: HttpClient,
    /// DNS resolver for endpoints.
    pub dns: Dns,
    /// Registries of services, in the order in which a name is looked up.
    pub registries: Vec<Registry>,
    /// Registrations of the gateway itself.
    pub registrations: Vec<Registration>,
    /// Routes of the services that the registries know; `None` if they get none.
    pub locator: Option<crate::locator::Locator>,
    /// Upstreams of `lb://` targets.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Responds with 404 instead of 503 if no endpoint is healthy.
    pub use404: bool,
    /// CORS policies by path.
    pub cors: Cors,
    /// Treatment of requests with several keys.
    pub repeated_keys: RepeatedKeys,
    /// Enabled routes, in the order in which they are tried.
    pub routes: Vec<Route>,
    /// True if the files have an empty list of routes. Without one, a file without routes may be incomplete or the wrong one.
    pub means_no_routes: bool,
}
