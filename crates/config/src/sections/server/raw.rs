//! Listeners and Redis as typed.

use std::net::IpAddr;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Address, Size, Time};
use crate::sections::management::metrics::RawCommonTags;
use crate::sections::management::raw::{RawEndpointSettings, RawEndpoints};
use crate::sections::scalars::StringOrList;
use crate::sections::tls::RawServerSsl;

/// The listener for traffic.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServer {
    /// Address to listen on. Default `0.0.0.0`: a gateway is there to be reached.
    #[schemars(with = "Option<IpAddr>")]
    pub(crate) address: Option<Address>,
    /// Port to listen on; 0 lets the system choose. Default 8080, as Spring Boot's; the environment variable `SERVER_PORT` overrides it.
    pub(crate) port: Option<u16>,
    /// Threads that serve. Default: one for each core.
    pub(crate) workers: Option<NonZeroUsize>,
    /// HTTP/2 settings.
    pub(crate) http2: RawHttp2,
    #[serde(alias = "max-http-header-size")]
    /// Bytes that a request's head may have, from 8KB to 16MB. Default 64KB, enough for large cookies and tokens.
    pub(crate) max_http_request_header_size: Option<Spanned<Size>>,
    /// Header fields that a request may have. Default 100, more than any browser sends.
    pub(crate) max_headers: Option<Spanned<usize>>,
    /// Bytes that a request's body may have; `RequestSize` sets it for a route. Default: no limit, bodies stream.
    pub(crate) max_body_size: Option<Size>,
    /// Connections held at once, shared out evenly among the workers. Default 20000.
    pub(crate) max_connections: Option<NonZeroUsize>,
    /// Spring Boot's `graceful` or `immediate`: whether requests in flight may end.
    #[schemars(skip)]
    pub(crate) shutdown: Option<RawShutdown>,
    /// Spring Boot's settings of Netty.
    #[schemars(skip)]
    pub(crate) netty: RawNetty,
    /// Spring Boot's way to believe forwarding headers: `none`, `native` or `framework`.
    #[schemars(skip)]
    pub(crate) forward_headers_strategy: Option<Spanned<String>>,
    /// Time in which a request's head must arrive: slow senders must not hold connections. Default 30s.
    pub(crate) header_timeout: Option<Spanned<Time>>,
    /// Time for which an idle connection is kept. Default 75s, longer than the 60s of common load balancers, so that they close first.
    pub(crate) idle_timeout: Option<Spanned<Time>>,
    /// Time within which the next piece of a request's body must arrive. Default 30s.
    pub(crate) body_timeout: Option<Spanned<Time>>,
    /// Time within which the client must take the next piece of a response. Default 30s.
    pub(crate) write_timeout: Option<Spanned<Time>>,
    /// Time that requests in flight have to end when the gateway stops. Default 30s, as Spring Boot's.
    pub(crate) shutdown_timeout: Option<Time>,
    /// TLS. Default: none.
    #[schemars(with = "Option<RawServerSsl>")]
    pub(crate) ssl: Option<NodeRef>,
}

/// What Spring Boot does with requests in flight when it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawShutdown {
    /// They may end.
    Graceful,
    /// They are cut off.
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
    /// Whether HTTP/2 is served: agreed on under TLS, with prior knowledge without. Default true: gRPC clients within a network need it.
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
    /// Spring Boot's settings of all endpoints.
    #[schemars(skip)]
    pub(crate) endpoints: RawEndpoints,
    /// Spring Boot's settings of one endpoint.
    #[schemars(skip)]
    pub(crate) endpoint: RawEndpointSettings,
    /// What is said of everything that is counted.
    pub(crate) metrics: RawCommonTags,
}

/// Where the management listener listens.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawManagementServer {
    /// Address to listen on. Default `127.0.0.1`: it has no password.
    #[schemars(with = "Option<IpAddr>")]
    pub(crate) address: Option<Spanned<Address>>,
    /// Port to listen on; -1 turns the listener off, as in Spring Boot. Default 9090; the environment variable `MANAGEMENT_SERVER_PORT` overrides it.
    pub(crate) port: Option<Spanned<i32>>,
    /// What Spring Boot puts before the path of every endpoint.
    #[schemars(skip)]
    pub(crate) base_path: Option<String>,
}

/// When the gateway is ready.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawReadiness {
    /// Whether it is unready while Redis is out of reach. Default false: limits then work by `on-store-failure`.
    pub(crate) redis: Option<bool>,
}

/// Where limits are kept across gateways: one server by `url` or by Spring's parts of one, `cluster` or `sentinel`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRedis {
    /// `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, `redis+unix:///path` for a socket; `valkey` in place of `redis` means the same. Default: the server at `host` and `port`.
    #[schemars(example = &"redis://127.0.0.1:6379")]
    pub(crate) url: Option<Spanned<String>>,
    /// One server, in place of `url`, by Spring's parts of one. Default `localhost`.
    pub(crate) host: Option<Spanned<String>>,
    /// Its port. Default 6379.
    pub(crate) port: Option<Spanned<u16>>,
    /// Who logs in, unless the URL says so. Default: the user `default`.
    pub(crate) username: Option<Spanned<String>>,
    /// The password, from the environment: `${REDIS_PASSWORD}`. Default: none, nobody logs in.
    #[schemars(example = &"${REDIS_PASSWORD}")]
    pub(crate) password: Option<Spanned<String>>,
    /// A file with the password, in place of `password`, as secrets are mounted; read with this file, the end of its line does not count.
    #[schemars(example = &"/run/secrets/redis")]
    pub(crate) password_file: Option<Spanned<String>>,
    /// Number of the database. Default: 0, the only one of a cluster.
    pub(crate) database: Option<Spanned<u32>>,
    /// Redis Cluster.
    pub(crate) cluster: Option<Spanned<RawCluster>>,
    /// The primary that Redis Sentinels name.
    pub(crate) sentinel: Option<Spanned<RawSentinel>>,
    /// TLS: `true`, or files. Default false, unless `url` begins with `rediss://`.
    #[schemars(with = "Option<RawTlsOrFlag>")]
    pub(crate) tls: Option<NodeRef>,
    /// `resp3` or `resp2`. Default `resp3`, with which an idle connection notices that it was closed; servers before Redis 6 need `resp2`.
    pub(crate) protocol: Option<Spanned<RawProtocol>>,
    /// Time that one decision may take, queueing included; without a connection it takes none. Default 100ms: a limiter must not be what a client waits for.
    pub(crate) timeout: Option<Spanned<Time>>,
    /// Connections that each worker shares among its requests, to each server. Default 1: commands are pipelined.
    pub(crate) connections: Option<NonZeroUsize>,
    /// Send decisions that wait in a worker at the same moment as one call of one script, each decided as it would be alone. Such a call has keys of many hash tags: `false` for a proxy in front of Redis that sends keys to different servers. Default true, without effect in a cluster.
    pub(crate) batch: Option<bool>,
    /// Write key ids as hashes: for keys that are secrets, such as API keys. Default false: an operator can read them.
    pub(crate) hash_keys: Option<bool>,
    /// Remember a denial until something can be there again, a second at most, and deny the same request without asking. What is given back meanwhile ends it at once, from other gateways too: they say so on the channel `tollgate.returned`, which the user must be allowed to subscribe and publish to (`&tollgate.returned`, RESP3), or it takes that second. Default true.
    pub(crate) denial_cache: Option<bool>,
    /// Requests of one key that come while one of them is being asked for go together in one call, in the order in which they came. Default true.
    pub(crate) coalesce: Option<bool>,
    /// Spring's TLS: `enabled` and `bundle`.
    #[schemars(skip)]
    pub(crate) ssl: Option<NodeRef>,
}

/// Redis Cluster.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCluster {
    /// Some of its nodes as `host:port`, a list or a text with commas: the others are found through any of them. Required.
    #[schemars(example = &["10.0.0.1:6379", "10.0.0.2:6379"])]
    #[schemars(with = "StringOrList")]
    pub(crate) nodes: Vec<Spanned<String>>,
}

/// The primary that Redis Sentinels name.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSentinel {
    /// The name under which they watch it. Required.
    #[schemars(example = &"mymaster")]
    pub(crate) master: Option<Spanned<String>>,
    /// The Sentinels as `host:port`. Required.
    #[schemars(example = &["10.0.0.1:26379", "10.0.0.2:26379"])]
    #[schemars(with = "StringOrList")]
    pub(crate) nodes: Vec<Spanned<String>>,
    /// Who logs in to a Sentinel, apart from who logs in to Redis. Default: the user `default`.
    pub(crate) username: Option<Spanned<String>>,
    /// The password for a Sentinel. Default: none, nobody logs in.
    #[schemars(example = &"${SENTINEL_PASSWORD}")]
    pub(crate) password: Option<Spanned<String>>,
    /// A file with the password, in place of `password`.
    #[schemars(example = &"/run/secrets/sentinel")]
    pub(crate) password_file: Option<Spanned<String>>,
}

/// TLS by files, each in PEM.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawTls {
    /// Certificates of the authorities that are trusted; `tls: true` alone trusts those of the system. With `url` it begins with `rediss://`. Default: those of the system.
    #[schemars(example = &"/etc/tollgate/ca.pem")]
    pub(crate) ca: Option<Spanned<String>>,
    /// This client's certificate, with its chain, for servers that ask for one.
    #[schemars(example = &"/etc/tollgate/client.pem")]
    pub(crate) cert: Option<Spanned<String>>,
    /// The key of `cert`, not encrypted.
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
    /// On, trusting whom the system trusts, or off.
    Flag(bool),
}

/// Spring's TLS.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSsl {
    pub(crate) enabled: Option<Spanned<bool>>,
    pub(crate) bundle: Option<Spanned<String>>,
    /// What stands under `spring.ssl.bundle`, put here by [`crate::spring::normalize`].
    pub(crate) bundles: Option<NodeRef>,
}

/// A version of Redis' protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawProtocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}
