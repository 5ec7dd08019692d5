//! Listeners and Redis as typed.

use std::net::IpAddr;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;

use super::spot::{Spot, Whole};
use super::units::{Size, Time};

/// The listener for traffic.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServer {
    /// Address to listen on. Default `0.0.0.0`: a gateway is there to be reached.
    pub(crate) address: Option<IpAddr>,
    /// Port to listen on. Default 8080, as Spring Boot's; SERVER_PORT overrides it.
    pub(crate) port: Option<u16>,
    /// Threads that serve. Default: one for each core.
    pub(crate) workers: Option<NonZeroUsize>,
    /// HTTP/2 settings.
    pub(crate) http2: RawHttp2,
    /// Bytes that a request's head may have. Default 64KB; at least 8KB.
    pub(crate) max_http_request_header_size: Option<Spot<Size>>,
    /// Header fields that a request may have. Default 100, as hyper's.
    pub(crate) max_headers: Option<Spot<usize>>,
    /// Bytes that a request's body may have. Default: no limit, bodies stream.
    pub(crate) max_body_size: Option<Size>,
    /// Connections held at once. Default 20000.
    pub(crate) max_connections: Option<NonZeroUsize>,
    /// Time in which a request's head must arrive. Default 30s.
    pub(crate) header_timeout: Option<Spot<Time>>,
    /// Time for which an idle connection is kept. Default 75s, longer than the 60s of common load balancers.
    pub(crate) idle_timeout: Option<Spot<Time>>,
    /// Time within which the next piece of a request's body must arrive. Default 30s.
    pub(crate) body_timeout: Option<Spot<Time>>,
    /// Time within which the client must take the next piece of a response. Default 30s.
    pub(crate) write_timeout: Option<Spot<Time>>,
    /// Time that requests in flight have to end when the gateway stops. Default 30s, as Spring Boot's.
    pub(crate) shutdown_timeout: Option<Time>,
    /// TLS: not supported yet.
    #[schemars(skip)]
    pub(crate) ssl: Option<Whole>,
}

/// HTTP/2 settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttp2 {
    /// Whether HTTP/2 without TLS is served. Default true: gRPC clients need it.
    pub(crate) enabled: Option<bool>,
}

/// The listener for health, metrics and the API.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawManagement {
    /// Whether there is one. Default true.
    pub(crate) enabled: Option<bool>,
    /// Where it listens.
    pub(crate) server: RawManagementServer,
    /// When the gateway is ready.
    pub(crate) readiness: RawReadiness,
}

/// Where the management listener listens.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawManagementServer {
    /// Default `127.0.0.1`: it has no password.
    pub(crate) address: Option<Spot<IpAddr>>,
    /// Default 9090; -1 turns it off, as in Spring Boot; MANAGEMENT_SERVER_PORT overrides it.
    pub(crate) port: Option<Spot<i32>>,
}

/// When the gateway is ready.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawReadiness {
    /// Whether it is unready while Redis is out of reach. Default false: limits then work by `on-store-failure`.
    pub(crate) redis: Option<bool>,
}

/// Where limits are kept across gateways: `url`, or Spring's parts of one.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRedis {
    /// `redis://[user:password@]host[:port][/database]`.
    pub(crate) url: Option<Spot<String>>,
    /// Default `localhost`.
    pub(crate) host: Option<Spot<String>>,
    /// Default 6379.
    pub(crate) port: Option<u16>,
    /// Default: none.
    pub(crate) username: Option<String>,
    /// Default: none.
    pub(crate) password: Option<String>,
    /// Default 0.
    pub(crate) database: Option<u32>,
    /// Time that one decision may take, queueing included; without a connection it takes none. Default 100ms: a limiter must not be what a client waits for.
    pub(crate) timeout: Option<Spot<Time>>,
    /// Connections that each worker shares among its requests. Default 1: commands are pipelined.
    pub(crate) connections: Option<NonZeroUsize>,
    /// Write key ids as hashes: for keys that are secrets, such as API keys. Default false: an operator can read them.
    pub(crate) hash_keys: Option<bool>,
    /// Remember a denial for as long as it certainly is one, a second at most, and deny the same request without asking. Default true.
    pub(crate) denial_cache: Option<bool>,
    /// Send requests that ask the same while one of them is being asked for in one call. Default true.
    pub(crate) coalesce: Option<bool>,
    /// TLS: not supported yet.
    #[schemars(skip)]
    pub(crate) ssl: Option<Whole>,
    /// Redis Cluster: not supported yet.
    #[schemars(skip)]
    pub(crate) cluster: Option<Whole>,
    /// Redis Sentinel: not supported yet.
    #[schemars(skip)]
    pub(crate) sentinel: Option<Whole>,
}
