//! Raw `redis`.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Time;
use crate::sections::scalars::StringOrList;

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
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
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
