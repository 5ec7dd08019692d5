//! Raw settings of the listeners and of Redis.

use std::net::IpAddr;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Address, Size, Time};
use crate::sections::scalars::StringOrList;
use crate::sections::management::metrics::RawCommonTags;
use crate::sections::management::raw::{RawEndpointSettings, RawEndpoints};
use crate::sections::tls::RawServerSsl;

/// Listener for traffic.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServer {
    /// Address to listen on. Default `0.0.0.0`, all interfaces.
    #[schemars(extend("x-needs-restart" = true))]
    #[schemars(with = "Option<IpAddr>")]
    pub(crate) address: Option<Address>,
    /// Port to listen on; 0 lets the system choose. Default 8080, as Spring Boot's; the environment variable `SERVER_PORT` overrides it.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) port: Option<u16>,
    /// Worker threads. Default: one per core.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) workers: Option<NonZeroUsize>,
    /// HTTP/2 settings.
    pub(crate) http2: RawHttp2,
    #[serde(alias = "max-http-header-size")]
    /// Upper bound of a request's head, from 8KB to 16MB. Default 64KB, enough for large cookies and tokens.
    pub(crate) max_http_request_header_size: Option<Spanned<Size>>,
    /// Upper bound of header fields in a request. Default 100, more than any browser sends.
    pub(crate) max_headers: Option<Spanned<usize>>,
    /// Upper bound of a request's body; `RequestSize` sets it per route. Default: no limit, bodies are streamed.
    pub(crate) max_body_size: Option<Size>,
    /// Concurrent connections, divided evenly among the workers. Default 20000.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) max_connections: Option<NonZeroUsize>,
    /// Spring Boot's `graceful` or `immediate` shutdown.
    #[schemars(skip)]
    pub(crate) shutdown: Option<RawShutdown>,
    /// Spring Boot's settings of Netty.
    #[schemars(skip)]
    pub(crate) netty: RawNetty,
    /// Spring Boot's strategy for forwarding headers: `none`, `native` or `framework`.
    #[schemars(skip)]
    pub(crate) forward_headers_strategy: Option<Spanned<String>>,
    /// Timeout for the head of a request. Default 30s.
    pub(crate) header_timeout: Option<Spanned<Time>>,
    /// Time after which an idle connection is closed. Default 75s, longer than the 60s of common load balancers, so that they close first.
    pub(crate) idle_timeout: Option<Spanned<Time>>,
    /// Timeout for each part of a request body. Default 30s.
    pub(crate) body_timeout: Option<Spanned<Time>>,
    /// Timeout for each write to the client. Default 30s.
    pub(crate) write_timeout: Option<Spanned<Time>>,
    /// Time for in-flight requests when the gateway shuts down. Default 30s, as in Spring Boot.
    pub(crate) shutdown_timeout: Option<Time>,
    /// TLS. Default: none.
    #[schemars(with = "Option<RawServerSsl>")]
    pub(crate) ssl: Option<NodeRef>,
}

/// Spring Boot's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawShutdown {
    /// In-flight requests may finish.
    Graceful,
    /// In-flight requests are cancelled.
    Immediate,
}

/// Spring Boot's settings of Netty.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawNetty {
    /// As `server.idle-timeout`.
    pub(crate) idle_timeout: Option<Spanned<Time>>,
}

/// HTTP/2 settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttp2 {
    /// Enables HTTP/2: by ALPN with TLS, with prior knowledge without. Default true, which gRPC clients need.
    pub(crate) enabled: Option<bool>,
}

/// Listener for health, metrics and the API.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawManagement {
    /// Enables the listener. Default true.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) enabled: Option<bool>,
    /// Its address and port.
    pub(crate) server: RawManagementServer,
    /// Readiness of the gateway.
    pub(crate) readiness: RawReadiness,
    /// Spring Boot's settings of all endpoints.
    #[schemars(skip)]
    pub(crate) endpoints: RawEndpoints,
    /// Spring Boot's settings of one endpoint.
    #[schemars(skip)]
    pub(crate) endpoint: RawEndpointSettings,
    /// Labels of all metrics.
    pub(crate) metrics: RawCommonTags,
}

/// Address and port of the management listener.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawManagementServer {
    /// Address to listen on. Default `127.0.0.1`, since it has no password.
    #[schemars(extend("x-needs-restart" = true))]
    #[schemars(with = "Option<IpAddr>")]
    pub(crate) address: Option<Spanned<Address>>,
    /// Port to listen on; -1 turns the listener off, as in Spring Boot. Default 9090; the environment variable `MANAGEMENT_SERVER_PORT` overrides it.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) port: Option<Spanned<i32>>,
    /// Spring Boot's prefix of the path of every endpoint.
    #[schemars(skip)]
    pub(crate) base_path: Option<String>,
}

/// Readiness of the gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawReadiness {
    /// Reports not ready while Redis is unreachable. Default false: limits then follow `on-store-failure`.
    pub(crate) redis: Option<bool>,
}

/// Store of limits for several gateways: one server by `url` or by `host` and `port`, `cluster` or `sentinel`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRedis {
    /// `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, `redis+unix:///path` for a socket; `valkey` for `redis` means the same. Default: the server at `host` and `port`.
    #[schemars(example = &"redis://127.0.0.1:6379")]
    pub(crate) url: Option<Spanned<String>>,
    /// Host of one server, instead of `url`. Default `localhost`.
    pub(crate) host: Option<Spanned<String>>,
    /// Port of `host`. Default 6379.
    pub(crate) port: Option<Spanned<u16>>,
    /// User name, unless `url` has one. Default: the user `default`.
    pub(crate) username: Option<Spanned<String>>,
    /// Password; take it from the environment: `${REDIS_PASSWORD}`. Default: none, no authentication.
    #[schemars(example = &"${REDIS_PASSWORD}")]
    pub(crate) password: Option<Spanned<String>>,
    /// File with the password, such as a mounted secret, instead of `password`. It is read with this file; a final line break is dropped.
    #[schemars(example = &"/run/secrets/redis")]
    pub(crate) password_file: Option<Spanned<String>>,
    /// Database number. Default: 0, the only one of a cluster.
    pub(crate) database: Option<Spanned<u32>>,
    /// Redis Cluster.
    pub(crate) cluster: Option<Spanned<RawCluster>>,
    /// Redis Sentinel.
    pub(crate) sentinel: Option<Spanned<RawSentinel>>,
    /// TLS: `true`, or files. Default false, unless `url` begins with `rediss://`.
    #[schemars(with = "Option<RawTlsOrFlag>")]
    pub(crate) tls: Option<NodeRef>,
    /// Protocol version: `resp3` or `resp2`. Default `resp3`, which detects closed idle connections; servers before Redis 6 need `resp2`.
    pub(crate) protocol: Option<Spanned<RawProtocol>>,
    /// Timeout of one decision, queueing included; without a connection, calls fail immediately. Default 100ms, so that a slow Redis does not slow down clients.
    pub(crate) timeout: Option<Spanned<Time>>,
    /// Connections per worker and server. Default 1: commands are pipelined.
    pub(crate) connections: Option<NonZeroUsize>,
    /// Enables batching: decisions that wait in a worker are sent as one script call, each decided on its own. Such a call has keys of many hash tags, so disable it behind a proxy that shards keys. Default true; no effect in a cluster.
    pub(crate) batch: Option<bool>,
    /// Writes key ids as hashes, for secret keys such as API keys. Default false, so that operators can read them.
    pub(crate) hash_keys: Option<bool>,
    /// Enables the denial cache: a denied key is denied without a call until tokens are available, at most one second. Returned tokens end it at once. Gateways report them on the channel `tollgate.returned`, which needs RESP3 and the permission `&tollgate.returned`. Default true.
    pub(crate) denial_cache: Option<bool>,
    /// Enables coalescing: requests of a key that arrive during a call for it share the next call, in their order. Default true.
    pub(crate) coalesce: Option<bool>,
    /// Spring's TLS: `enabled` and `bundle`.
    #[schemars(skip)]
    pub(crate) ssl: Option<NodeRef>,
}

/// Redis Cluster.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCluster {
    /// Some of its nodes as `host:port`, a list or a text with commas; the others are discovered. Required.
    #[schemars(example = &["10.0.0.1:6379", "10.0.0.2:6379"])]
    #[schemars(with = "StringOrList")]
    pub(crate) nodes: Vec<Spanned<String>>,
}

/// Redis Sentinel.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSentinel {
    /// Name of the primary in the Sentinels. Required.
    #[schemars(example = &"mymaster")]
    pub(crate) master: Option<Spanned<String>>,
    /// Sentinels as `host:port`. Required.
    #[schemars(example = &["10.0.0.1:26379", "10.0.0.2:26379"])]
    #[schemars(with = "StringOrList")]
    pub(crate) nodes: Vec<Spanned<String>>,
    /// User name for the Sentinels. Default: the user `default`.
    pub(crate) username: Option<Spanned<String>>,
    /// Password for the Sentinels. Default: none, no authentication.
    #[schemars(example = &"${SENTINEL_PASSWORD}")]
    pub(crate) password: Option<Spanned<String>>,
    /// File with the password, instead of `password`.
    #[schemars(example = &"/run/secrets/sentinel")]
    pub(crate) password_file: Option<Spanned<String>>,
}

/// TLS by files, each in PEM.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawTls {
    /// Trusted CA certificates. Default: the system's trust store.
    #[schemars(example = &"/etc/tollgate/ca.pem")]
    pub(crate) ca: Option<Spanned<String>>,
    /// Client certificate of the gateway, with its chain.
    #[schemars(example = &"/etc/tollgate/client.pem")]
    pub(crate) cert: Option<Spanned<String>>,
    /// Private key of `cert`, not encrypted.
    #[schemars(example = &"/etc/tollgate/client-key.pem")]
    pub(crate) key: Option<Spanned<String>>,
}

/// TLS by files, or on and off.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "stands in the schema for what is read by hand")]
pub(crate) enum RawTlsOrFlag {
    /// By files.
    Files(RawTls),
    /// On, with the system's trust store, or off.
    Flag(bool),
}

/// Spring's TLS.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSsl {
    pub(crate) enabled: Option<Spanned<bool>>,
    pub(crate) bundle: Option<Spanned<String>>,
    /// Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    pub(crate) bundles: Option<NodeRef>,
}

/// Version of the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawProtocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}
