//! The checked configuration: plain data, every value valid.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::cors::Policy;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::store::redis::RedisSettings;

pub use crate::filters::model::{
    CircuitBreaker, ConcurrencyLimiter, Filter, Forward, Place, RequestCounter, ResponseCache,
};
pub use crate::rate_limiter::{
    Atomicity, GatewayNumber, Limit, LockRetry, NamedLimit, Naming, PlanResolver, Plans, RateLimiter, Rules, StoreKind,
};
pub use crate::sections::forwarding::model::{ForwardedHeaders, Forwarding, Tell, TrustedProxies, Underscores};
pub use crate::sections::http_client::model::{
    ConnectionPool, Http2, HttpClient, Identity, Leasing, Proxy, ProxyKind, ProxyLogin, Tls, TlsVersion, Trust,
};
pub use crate::sections::management::model::{Actuator, Management, RequestSeries};
use crate::sections::upstreams::{Dns, Upstream};
use crate::yaml::Span;
use tollgate_routing::Predicate;

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

/// The listener for traffic.
#[derive(Clone, Debug)]
pub struct Server {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on; 0 lets the system choose.
    pub port: u16,
    /// Threads that serve, each with its own runtime.
    pub workers: NonZeroUsize,
    /// Whether HTTP/2 is served: agreed on under TLS, with prior knowledge without.
    pub http2: bool,
    /// TLS; `None`: clear text.
    pub tls: Option<ServerTls>,
    /// Bytes that a request's head may have.
    pub max_header_bytes: usize,
    /// Header fields that a request may have.
    pub max_headers: usize,
    /// Bytes that a request's body may have; `None`: no limit.
    pub max_body_bytes: Option<u64>,
    /// Connections that the gateway holds at once.
    pub max_connections: usize,
    /// Time in which a request's head must arrive.
    pub header_timeout: Duration,
    /// Time for which an idle connection is kept.
    pub idle_timeout: Duration,
    /// Time within which the next piece of a request's body must arrive.
    pub body_timeout: Duration,
    /// Time within which the client must take the next piece of a response.
    pub write_timeout: Duration,
    /// Time that requests in flight have to end when the gateway stops.
    pub shutdown_timeout: Duration,
}

/// TLS towards clients: certificates that were read and fit their keys. Shared, so that a client may resume on any
/// worker.
#[derive(Clone)]
pub struct ServerTls(pub Arc<rustls::ServerConfig>);

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls") // nothing of a key belongs into a log
    }
}

/// Where limits are kept across gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Which servers there are, and how to reach them. Its `Debug` shows no password.
    pub settings: RedisSettings,
    /// Whether key ids are written as hashes.
    pub hash_keys: bool,
    /// Whether denials are remembered.
    pub denial_cache: bool,
    /// Whether equal requests at one time go together.
    pub coalesce: bool,
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

/// One line a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where to.
    pub output: LogOutput,
    /// How.
    pub format: AccessLogFormat,
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard output.
    Stdout,
    /// Nowhere.
    Off,
    /// Appended to a file.
    File(PathBuf),
}

/// How a line of the access log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// Apache's combined log format.
    Combined,
    /// One JSON object.
    Json,
}

/// The gateway's own log, on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// How a line looks.
    pub format: LogFormat,
    /// The least severe level that is logged.
    pub level: tracing::Level,
}

/// How a line of the gateway's own log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// Which requests go where, and what happens to them on the way.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its unique name.
    pub id: Arc<str>,
    /// Where it leads.
    pub uri: Target,
    /// Conditions that must all hold.
    pub predicates: Vec<Predicate>,
    /// Filters in the order in which a request meets them, default-filters among them.
    pub filters: Vec<Filter>,
    /// Routes are tried in this order, lower first.
    pub order: i32,
    /// Replaces [`HttpClient::connect_timeout`].
    pub connect_timeout: Option<Duration>,
    /// Replaces [`HttpClient::response_timeout`]; `Some(None)`: no limit.
    pub response_timeout: Option<Option<Duration>>,
    /// Replaces [`HttpClient::tls`].
    pub tls: Option<Arc<Tls>>,
    /// Replaces [`HttpClient::http2`].
    pub http2: Option<Http2>,
    /// Who may ask from other origins, as the route has it; [`Config::cors`] has it by path.
    pub cors: Option<RouteCors>,
    /// The route as its author wrote it.
    pub definition: Definition,
}

/// Who may ask from other origins: the first pattern that matches the path has the policy.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    /// For requests that a route takes.
    pub by_path: Vec<(Predicate, Arc<Policy>)>,
    /// For those that none takes: preflights, for the most part.
    pub unrouted: Vec<(Predicate, Arc<Policy>)>,
}

/// What a route says of other origins.
#[derive(Clone, Debug)]
pub struct RouteCors {
    /// Who may ask.
    pub policy: Arc<Policy>,
    /// Whether it is `cors` of the route, and not Spring's `metadata.cors`.
    pub is_own: bool,
    /// Where it stands.
    pub(crate) span: Span,
}

/// A route as its author wrote it, for `/actuator/gateway/routes`.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The `uri`.
    pub uri: String,
    /// The predicates.
    pub predicates: Vec<String>,
    /// The filters in the order in which they apply, default-filters among them.
    pub filters: Vec<String>,
    /// The metadata, flattened.
    pub metadata: BTreeMap<String, String>,
}

/// How an HTTP server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Over a plain connection: `http` and `ws`.
    Http,
    /// Over TLS: `https` and `wss`.
    Https,
}

impl Scheme {
    /// As URIs have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Where its servers listen unless they say otherwise.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The upstream within the gateway that answers with what it received.
    Echo,
    /// Another route of the gateway, by this path.
    Forward(Arc<str>),
    /// Nowhere: the filters answer, and otherwise an empty 200 does.
    Nowhere,
    /// An HTTP server.
    Http {
        /// Whether it speaks TLS.
        scheme: Scheme,
        /// Its name or address, an IPv6 address without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
    /// One of several servers.
    Balanced {
        /// Which.
        upstream: Arc<Upstream>,
        /// How its endpoints are spoken to; `None`: each as its own URI says.
        scheme: Option<Scheme>,
    },
}

impl Target {
    /// What makes of a request the key that its endpoint is chosen by, where that is so.
    #[must_use]
    pub fn key_resolver(&self) -> Option<&KeyResolver> {
        match self {
            Self::Balanced { upstream, .. } => upstream.balance.key_resolver(),
            Self::Echo | Self::Http { .. } | Self::Forward(_) | Self::Nowhere => None,
        }
    }
}
