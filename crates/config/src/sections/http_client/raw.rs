//! `httpclient` as typed.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Size, Time};
use crate::sections::scalars::Scalar;

/// Connections to upstreams.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttpClient {
    /// Time in which a connection must stand. Default 5s; a bare number is milliseconds, as Spring's.
    pub(crate) connect_timeout: Option<Spanned<Time>>,
    /// Time in which a response's head must arrive. Default 60s; none in a Spring file, as Spring's.
    pub(crate) response_timeout: Option<Spanned<Time>>,
    /// Time within which the next piece of a response's body must arrive. Default 60s.
    pub(crate) read_timeout: Option<Spanned<Time>>,
    /// Bytes that a response's head may have. Default 64KB; from 1KB to 16MB.
    pub(crate) max_header_size: Option<Spanned<Size>>,
    /// HTTP/2 with upstreams: `auto` speaks it over TLS where the upstream chooses it, `off` never, `prior-knowledge` also without TLS. Default `auto`.
    pub(crate) http2: Option<RawClientHttp2>,
    /// TLS to `https` targets of routes that have no `tls` of their own.
    #[schemars(with = "Option<RawClientTls>")]
    pub(crate) tls: Option<NodeRef>,
    /// How many connections are made and kept.
    pub(crate) pool: RawPool,
    /// A proxy that connections are made through.
    pub(crate) proxy: Option<Spanned<RawProxy>>,
    /// Spring's TLS.
    #[schemars(skip)]
    pub(crate) ssl: Option<NodeRef>,
    /// Spring's WebSocket client.
    #[schemars(skip)]
    pub(crate) websocket: RawWebsocket,
    #[schemars(skip)]
    pub(crate) max_initial_line_length: Option<Spanned<String>>,
    #[schemars(skip)]
    pub(crate) wiretap: Option<Spanned<bool>>,
    #[schemars(skip)]
    pub(crate) compression: Option<Spanned<bool>>,
}

/// When HTTP/2 is spoken with upstreams.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawClientHttp2 {
    /// Over TLS where the upstream chooses it.
    Auto,
    /// Never.
    Off,
    /// Over TLS where the upstream chooses it, and always without TLS (h2c).
    PriorKnowledge,
}

/// TLS to upstreams; files are PEM.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawClientTls {
    /// Certificates of the authorities that are trusted, or of the upstreams themselves. Default: the system's authorities.
    pub(crate) ca: Option<Spanned<String>>,
    /// The gateway's certificate, with its chain, for upstreams that ask for one.
    pub(crate) cert: Option<Spanned<String>>,
    /// The key of `cert`, not encrypted.
    pub(crate) key: Option<Spanned<String>>,
    /// The name that an upstream's certificate must have, and that it is asked for by (SNI). Default: the target's host.
    pub(crate) server_name: Option<Spanned<String>>,
    /// Believe any certificate. Default false: whoever stands between could be the upstream.
    pub(crate) insecure: Option<Spanned<bool>>,
    /// The oldest version of TLS that is spoken: `1.2` or `1.3`. Default `1.2`.
    #[schemars(with = "Option<Scalar>")]
    pub(crate) min_version: Option<Spanned<String>>,
}

/// How many connections are made and kept.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawPool {
    /// `elastic` makes as many connections as are needed, `fixed` at most `max-connections`, `disabled` one for each request. Default `elastic`.
    #[serde(rename = "type")]
    pub(crate) kind: Option<Spanned<RawPoolType>>,
    /// Connections to one target that all workers together make, each its even part, of a `fixed` pool. Default: twice the cores, at least 16, as Spring's.
    pub(crate) max_connections: Option<Spanned<NonZeroUsize>>,
    /// Time that a request waits for a connection of a `fixed` pool before it is answered 503. Default 45s, as Spring's.
    pub(crate) acquire_timeout: Option<Spanned<Time>>,
    /// Time for which an idle connection is kept. Default 60s, less than the 75s common with upstreams.
    pub(crate) max_idle_time: Option<Spanned<Time>>,
    /// Idle connections kept for each worker and target. Default 512.
    pub(crate) max_idle: Option<usize>,
    /// Age past which a connection takes no further request. Default: none.
    pub(crate) max_life_time: Option<Spanned<Time>>,
    /// Which idle connection is used next: `lifo`, the one used last, or `fifo`. Default `lifo`, with which a burst's surplus is closed.
    pub(crate) leasing_strategy: Option<RawLeasing>,
    #[schemars(skip)]
    pub(crate) name: Option<Spanned<String>>,
    #[schemars(skip)]
    pub(crate) eviction_interval: Option<Spanned<Time>>,
    #[schemars(skip)]
    pub(crate) metrics: Option<Spanned<bool>>,
}

/// Whether the number of connections has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawPoolType {
    /// It has none.
    Elastic,
    /// It has.
    Fixed,
    /// None is kept.
    Disabled,
}

/// Which idle connection is used next.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawLeasing {
    /// The one that has waited longest.
    Fifo,
    /// The one used last.
    Lifo,
}

/// A proxy that connections to upstreams are made through.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawProxy {
    /// What it speaks: `http` (CONNECT), `socks4` or `socks5`. Default `http`.
    #[serde(rename = "type")]
    pub(crate) kind: Option<RawProxyType>,
    /// Its name or address.
    pub(crate) host: Option<Spanned<String>>,
    /// Its port.
    pub(crate) port: Option<Spanned<u16>>,
    /// Who logs in to it. Default: nobody.
    pub(crate) username: Option<Spanned<String>>,
    /// The password of `username`.
    pub(crate) password: Option<Spanned<String>>,
    /// A regular expression: hosts that match it as a whole are reached without the proxy.
    pub(crate) non_proxy_hosts_pattern: Option<Spanned<String>>,
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawProxyType {
    /// HTTP's `CONNECT`.
    Http,
    /// SOCKS 4a.
    Socks4,
    /// SOCKS 5.
    Socks5,
}

/// Spring's WebSocket client.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawWebsocket {
    pub(crate) max_frame_payload_length: Option<Spanned<u64>>,
    pub(crate) proxy_ping: Option<Spanned<bool>>,
}

/// Spring's TLS to upstreams.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawClientSsl {
    pub(crate) use_insecure_trust_manager: Option<Spanned<bool>>,
    pub(crate) trusted_x509_certificates: Vec<Spanned<String>>,
    pub(crate) ssl_bundle: Option<Spanned<String>>,
    pub(crate) handshake_timeout: Option<Spanned<Time>>,
    pub(crate) close_notify_flush_timeout: Option<Spanned<Time>>,
    pub(crate) close_notify_read_timeout: Option<Spanned<Time>>,
    pub(crate) key_store: Option<Spanned<String>>,
    pub(crate) key_store_type: Option<Spanned<String>>,
    pub(crate) key_store_provider: Option<Spanned<String>>,
    pub(crate) key_store_password: Option<Spanned<String>>,
    pub(crate) key_password: Option<Spanned<String>>,
    /// What stands under `spring.ssl.bundle`, put here by [`crate::spring::normalize`].
    pub(crate) bundles: Option<NodeRef>,
}
