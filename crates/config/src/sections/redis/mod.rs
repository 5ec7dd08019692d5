//! `redis`: one server, Sentinels or a cluster, credentials, and TLS.

mod servers;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tollgate_limiter::store::redis::RedisSettings;

use crate::de::{Flag, Or, PositiveTime, Spanned, Subtree, millis, with_help};
use crate::diagnostics::{Diagnostics, Reported, reasons};
use crate::sections::redis::servers::{FoundServers, RawCluster, RawSentinel};
#[cfg(test)]
use crate::sections::redis::tls::RawTlsOrFlag;

/// Store of limits for several gateways: one server by `url` or by `host` and `port`, `cluster` or `sentinel`.
#[section]
pub(crate) struct RawRedis {
    /// `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, `redis+unix:///path` for a socket; `valkey` for `redis` means the same. Default: the server at `host` and `port`.
    #[cfg_attr(test, schemars(example = &"redis://127.0.0.1:6379"))]
    url: Option<Spanned<String>>,
    /// Host of one server, instead of `url`. Default `localhost`.
    host: Option<Spanned<String>>,
    /// Port of `host`. Default 6379.
    port: Option<Spanned<u16>>,
    /// User name, unless `url` has one. Default: the user `default`.
    username: Option<Spanned<String>>,
    /// Password; take it from the environment: `${REDIS_PASSWORD}`. Default: none, no authentication.
    #[cfg_attr(test, schemars(example = &"${REDIS_PASSWORD}"))]
    password: Option<Spanned<String>>,
    /// File with the password, such as a mounted secret, instead of `password`. It is read with this file; a final line break is dropped.
    #[cfg_attr(test, schemars(example = &"/run/secrets/redis"))]
    password_file: Option<Spanned<String>>,
    /// Database number. Default: 0, the only one of a cluster.
    database: Option<Spanned<u32>>,
    /// Redis Cluster.
    pub(crate) cluster: Option<Spanned<RawCluster>>,
    /// Redis Sentinel.
    sentinel: Option<Spanned<RawSentinel>>,
    /// TLS: `true`, or files. Default false, unless `url` begins with `rediss://`.
    #[cfg_attr(test, schemars(with = "Option<RawTlsOrFlag>"))]
    tls: Option<Subtree>,
    /// Protocol version: `resp3` or `resp2`. Default `resp3`, which carries notices between gateways; servers before Redis 6 and some proxies need `resp2`.
    protocol: Option<Spanned<RawProtocol>>,
    /// Timeout of one decision, queueing included; without a connection, calls fail immediately. Default {}, so that a slow Redis does not slow down clients.
    timeout: Spanned<DecisionTimeout>,
    /// Connections per worker and server. Default {}: commands are pipelined.
    connections: Or<NonZeroUsize, 1>,
    /// Enables batching: decisions that wait in a worker are sent as one script call, each decided on its own. Such a call has keys of many hash tags, so disable it behind a proxy that shards keys. Default {}; no effect in a cluster.
    batch: Flag<true>,
    /// Text before the name of every key and channel, such as `prod:`, so that environments with the same route ids can share servers: letters, digits and `-_.:/`. Spring's own limiter has none and counts elsewhere then. A change resets all limits. Default: none.
    #[cfg_attr(test, schemars(with = "Option<String>", example = &"prod:"))]
    key_prefix: KeyPrefix,
    #[serde(rename = "$tollgate::SameMap")]
    #[cfg_attr(test, schemars(flatten))]
    limiters: LimiterStoreOptions,
    // Spring's TLS: `enabled` and `bundle`.
    ssl: Option<Subtree>,
}

/// Use of Redis by limiters.
#[section(Clone, Copy, PartialEq, Eq)]
pub struct LimiterStoreOptions {
    /// Writes key ids as hashes, for secret keys such as API keys. Default {}, so that operators can read them.
    pub hash_keys: Flag<false>,
    /// Enables the denial cache: a denied key is denied without a call until tokens are available, at most one second. Returned tokens end it at once. Gateways report them on the channel `tollgate.returned`, which needs RESP3 and the permission `&tollgate.returned`.
    pub denial_cache: Flag<true>,
    /// Enables coalescing: requests of a key that arrive during a call for it share the next call, in their order.
    pub coalesce: Flag<true>,
}

/// Version of the Redis protocol.
#[word]
pub(crate) enum RawProtocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}

/// Redis, the store of limits for several gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Servers and connections. Its `Debug` shows no password.
    pub settings: RedisSettings,
    /// Use by limiters.
    pub limiters: LimiterStoreOptions,
}

/// Text before the name of every key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
struct KeyPrefix(Arc<str>);

/// Time of one decision: short, so that a slow Redis does not slow down clients.
type DecisionTimeout = Or<PositiveTime, { millis(100) }>;

/// Every key in Redis holds the prefix.
const MAX_KEY_PREFIX: usize = 64;

/// Checks `redis`. Reports errors.
pub(crate) fn check(raw: &Spanned<RawRedis>, diagnostics: &mut Diagnostics) -> Result<Redis, Reported> {
    let redis = &raw.value;
    let timeout = redis.timeout.get();
    if timeout > Duration::from_secs(1) {
        diagnostics
            .warn(redis.timeout.span, format!("while Redis hangs, every limited request waits {timeout:?}"))
            .help("100ms is the default");
    }
    let tls = tls::settings(redis, diagnostics);
    let servers = servers::find(raw, diagnostics);
    let (tls, servers) = (tls?, servers?);
    let login = servers::credentials(redis, &servers, diagnostics);
    let database = database(redis, &servers, diagnostics);
    let resp2 = resp2(redis, &servers, diagnostics);
    let (servers, tls) = tls::combine(servers, tls, diagnostics)?;
    let settings = RedisSettings {
        login: login?,
        database: database?,
        key_prefix: redis.key_prefix.0.clone(),
        tls,
        resp2: resp2?,
        timeout,
        connections: redis.connections.get(),
        batch: redis.batch.get(),
        ..RedisSettings::of(servers)
    };
    settings.check().map_err(|error| diagnostics.error(raw.span.key(), reasons(&error)).reported())?;
    Ok(Redis { settings, limiters: redis.limiters })
}

impl TryFrom<String> for KeyPrefix {
    type Error = String;

    /// A brace would move hash tags, and `*` or `?` in a permission match more than one environment.
    fn try_from(text: String) -> Result<Self, String> {
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        if text.len() > MAX_KEY_PREFIX || !text.bytes().all(is_safe) {
            let rule = format!("`key-prefix` has letters, digits and `-_.:/`, {MAX_KEY_PREFIX} at most");
            return Err(with_help(&format!("{rule}, found `{text}`"), "key-prefix: 'prod:'"));
        }
        Ok(Self(text.into()))
    }
}

fn database(redis: &RawRedis, servers: &FoundServers, diagnostics: &mut Diagnostics) -> Result<Option<u32>, Reported> {
    let Some(Spanned { value: number, span }) = redis.database else { return Ok(None) };
    match servers {
        FoundServers::Cluster(_) if number > 0 => Err(diagnostics
            .error(span, format!("a cluster has only database 0, found {number}"))
            .reported_with("remove `database`")),
        FoundServers::Url(url) if url.database.is_some_and(|other| other != number) => Err(diagnostics
            .error(span, format!("`database` is {number}, but `url` names another one"))
            .reported_with("remove one of the two")),
        FoundServers::Cluster(_) => Ok(None),
        _ => Ok(Some(number)),
    }
}

fn resp2(redis: &RawRedis, servers: &FoundServers, diagnostics: &mut Diagnostics) -> Result<bool, Reported> {
    match (redis.protocol, servers) {
        (Some(protocol), FoundServers::Url(url)) if url.has_protocol => Err(diagnostics
            .error(protocol.span.key(), "`protocol` is already in `url`")
            .reported_with("remove one of the two")),
        (protocol, _) => Ok(protocol.is_some_and(|protocol| protocol.value == RawProtocol::Resp2)),
    }
}
