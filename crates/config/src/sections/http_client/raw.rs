//! Raw `httpclient`.

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
    /// Timeout for connecting. Default 5s; a bare number is milliseconds, as in Spring.
    pub(crate) connect_timeout: Option<Spanned<Time>>,
    /// Timeout for the head of a response. Default 60s; none in a Spring file, as in Spring.
    pub(crate) response_timeout: Option<Spanned<Time>>,
    /// Timeout for each part of a response body. Default 60s.
    pub(crate) read_timeout: Option<Spanned<Time>>,
    /// Upper bound of a response's head, from 1KB to 16MB. Default 64KB.
    pub(crate) max_header_size: Option<Spanned<Size>>,
    /// HTTP/2 with upstreams: `auto` uses it over TLS if the upstream selects it, `off` never, `prior-knowledge` also without TLS. Default `auto`.
    pub(crate) http2: Option<RawClientHttp2>,
    /// TLS to `https` targets of routes without their own `tls`.
    #[schemars(with = "Option<RawClientTls>")]
    pub(crate) tls: Option<NodeRef>,
    /// Connection pool.
    pub(crate) pool: RawPool,
    /// Proxy for connections to upstreams.
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

/// Use of HTTP/2 with upstreams.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawClientHttp2 {
    /// Over TLS if the upstream selects it.
    Auto,
    /// Never.
    Off,
    /// Over TLS if the upstream selects it, and always without TLS (h2c).
    PriorKnowledge,
}

/// TLS to upstreams; files are PEM.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawClientTls {
    /// Trusted CA certificates, or certificates of the upstreams themselves. Default: the system's trust store.
    pub(crate) ca: Option<Spanned<String>>,
    /// Client certificate of the gateway, with its chain.
    pub(crate) cert: Option<Spanned<String>>,
    /// Private key of `cert`, not encrypted.
    pub(crate) key: Option<Spanned<String>>,
    /// Name that an upstream's certificate must have, also sent as SNI. Default: the target's host.
    pub(crate) server_name: Option<Spanned<String>>,
    /// Accepts all certificates. Default false: with it, traffic can be intercepted.
    pub(crate) insecure: Option<Spanned<bool>>,
    /// Oldest accepted version of TLS: `1.2` or `1.3`. Default `1.2`.
    #[schemars(with = "Option<Scalar>")]
    pub(crate) min_version: Option<Spanned<String>>,
}

/// Connection pool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawPool {
    /// `elastic` has no bound of connections, `fixed` has `max-connections`, `disabled` uses one per request. Default `elastic`.
    #[serde(rename = "type")]
    pub(crate) kind: Option<Spanned<RawPoolType>>,
    /// Upper bound of connections of a `fixed` pool to one target, divided evenly among the workers. Default: twice the cores, at least 16, as in Spring.
    pub(crate) max_connections: Option<Spanned<NonZeroUsize>>,
    /// Time for which a request waits for a connection of a `fixed` pool before it gets 503. Default 45s, as in Spring.
    pub(crate) acquire_timeout: Option<Spanned<Time>>,
    /// Time after which an idle connection is closed. Default 60s, less than the 75s common with upstreams.
    pub(crate) max_idle_time: Option<Spanned<Time>>,
    /// Idle connections per worker and target. Default 512.
    pub(crate) max_idle: Option<usize>,
    /// Age after which a connection serves no new request. Default: none.
    pub(crate) max_life_time: Option<Spanned<Time>>,
    /// Order in which idle connections are used: `lifo`, the most recently used first, or `fifo`. Default `lifo`, which lets connections of a burst time out.
    pub(crate) leasing_strategy: Option<RawLeasing>,
    #[schemars(skip)]
    pub(crate) name: Option<Spanned<String>>,
    #[schemars(skip)]
    pub(crate) eviction_interval: Option<Spanned<Time>>,
    #[schemars(skip)]
    pub(crate) metrics: Option<Spanned<bool>>,
}

/// Bound of the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawPoolType {
    /// No bound.
    Elastic,
    /// It has.
    Fixed,
    /// One connection per request.
    Disabled,
}

/// Order in which idle connections are used.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawLeasing {
    /// Least recently used first.
    Fifo,
    /// Most recently used first.
    Lifo,
}

/// Proxy for connections to upstreams.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawProxy {
    /// Protocol of the proxy: `http` (CONNECT), `socks4` or `socks5`. Default `http`.
    #[serde(rename = "type")]
    pub(crate) kind: Option<RawProxyType>,
    /// Its host.
    pub(crate) host: Option<Spanned<String>>,
    /// Its port.
    pub(crate) port: Option<Spanned<u16>>,
    /// User name. Default: none, no authentication.
    pub(crate) username: Option<Spanned<String>>,
    /// Password of `username`.
    pub(crate) password: Option<Spanned<String>>,
    /// Regular expression for hosts that bypass the proxy; it must match the whole host.
    pub(crate) non_proxy_hosts_pattern: Option<Spanned<String>>,
}

/// Protocol of a proxy.
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
    /// Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    pub(crate) bundles: Option<NodeRef>,
}
