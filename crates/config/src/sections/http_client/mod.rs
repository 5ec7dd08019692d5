//! `httpclient`: connections to upstreams, and the pool of idle ones.

pub(crate) mod proxy;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;

use serde::Deserialize;

use crate::de::{Or, PositiveTime, Ranged, Size, Spanned, Subtree, Timeout, Word, secs};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::proxy::{Proxy, RawProxy};
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client::{self, Tls};
use crate::sections::tls::client_ssl::{self, HandshakeTimeout};
use crate::sections::tls::files::both_given;

/// Connections to upstreams.
#[section(Clone)]
pub struct HttpClient {
    /// Timeout for each of two waits: for a connection that another request establishes, if HTTP/2 can share it, and for a new connection, with name lookup and proxy, without TLS. Default {}; a bare number is milliseconds, as in Spring.
    pub connect_timeout: Or<PositiveTime, { secs(5) }>,
    /// Timeout for the head of a response; `0` or `-1`: none. Default {}; none in a Spring file, as in Spring.
    pub response_timeout: Or<Timeout, { secs(60) }>,
    /// Timeout for each part of a response body, or of a request body that is still being sent, and for the rest of that body once the response has ended; `0` or `-1`: none, a minute for that rest. Default {}; none in a Spring file, as in Spring.
    pub read_timeout: Or<Timeout, { secs(60) }>,
    /// Upper bound of a response's head.
    pub max_header_size: Or<HeaderBytes, { 64 << 10 }>,
    /// Upper bound of header fields in a response.
    pub max_headers: Or<MaxHeaders, 200>,
    /// HTTP/2 with upstreams: `auto` uses it over TLS if the upstream selects it, `off` never, `prior-knowledge` also without TLS.
    pub http2: Word<Http2>,
    #[serde(rename = "tls")]
    /// TLS to `https` targets of routes without their own `tls`.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    tls_settings: Option<Subtree>,
    /// Connection pool.
    pub pool: ConnectionPool,
    #[serde(rename = "proxy")]
    /// Proxy for connections to upstreams.
    proxy_settings: Option<Spanned<RawProxy>>,
    // Spring's TLS.
    ssl: Option<Subtree>,
    /// TLS to `https` targets of routes without their own, from `tls` or `ssl`.
    #[serde(skip)]
    pub tls: Arc<Tls>,
    /// Timeout for the TLS handshake, from `ssl`.
    #[serde(skip)]
    pub handshake_timeout: HandshakeTimeout,
    /// Proxy for connections.
    #[serde(skip)]
    pub proxy: Option<Arc<Proxy>>,
}

/// Use of HTTP/2 with an upstream.
#[word(Default, Hash)]
pub enum Http2 {
    /// Over TLS if the upstream selects it; never without TLS.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Over TLS if the upstream selects it, and always without TLS (h2c with prior knowledge).
    PriorKnowledge,
}

/// Upper bound of header fields. `HeaderMap` of the `http` crate holds at most 32768.
pub(crate) type MaxHeaders = Ranged<usize, 1, 10_000>;

/// Upper bound of a response's head: smaller ones would refuse ordinary responses, larger ones would waste memory.
type HeaderBytes = Ranged<Size, 1024, { 16 << 20 }>;

impl HttpClient {
    /// Checks the section, and reads the files of TLS.
    pub(crate) fn check(mut self, diagnostics: &mut Diagnostics) -> Self {
        let (tls, handshake_timeout) = self.read_tls(diagnostics);
        (self.tls, self.handshake_timeout) = (Arc::new(tls.unwrap_or_default()), handshake_timeout);
        self.pool.check(diagnostics);
        self.proxy = self.proxy_settings.take().and_then(|proxy| proxy::check(&proxy, diagnostics)).map(Arc::new);
        self
    }

    /// Checks `tls` or `ssl`. Returns the settings, `None` if absent or after an error, and the handshake timeout.
    fn read_tls(&mut self, diagnostics: &mut Diagnostics) -> (Option<Tls>, HandshakeTimeout) {
        match (self.tls_settings.take(), self.ssl.take()) {
            (Some(tls), Some(ssl)) => {
                both_given(ssl.span, ("ssl", "tls"), tls.span, diagnostics);
                (None, HandshakeTimeout::default())
            }
            (Some(tls), None) => (client::check(&tls, diagnostics), HandshakeTimeout::default()),
            (None, Some(ssl)) => client_ssl::check(&ssl, diagnostics),
            (None, None) => (None, HandshakeTimeout::default()),
        }
    }
}

/// Connection pool.
#[section(Clone, PartialEq, Eq)]
pub struct ConnectionPool {
    /// `elastic` has no bound of connections, `fixed` has `max-connections`, `disabled` uses one per request.
    #[serde(rename = "type")]
    kind: Spanned<Word<PoolType>>,
    /// Upper bound of connections of a `fixed` pool to one target, divided evenly among the workers. Default: twice the cores, at least 16, as in Spring.
    max_connections: Option<Spanned<NonZeroUsize>>,
    /// Time for which a request waits for a connection of a `fixed` pool, or for a stream of one, before it gets 503. Default {}, as in Spring.
    pub acquire_timeout: Spanned<Or<PositiveTime, { secs(45) }>>,
    /// Time after which an idle connection is closed. Default {}, less than the 75s common with upstreams.
    pub max_idle_time: Or<PositiveTime, { secs(60) }>,
    /// Idle connections per worker and target.
    pub max_idle: Spanned<Or<usize, 512>>,
    /// Age after which a connection serves no new request. Default: none.
    pub max_life_time: Option<PositiveTime>,
    /// Order in which idle connections are used: `lifo`, the most recently used first, or `fifo`. Default {}, which lets connections of a burst time out.
    pub leasing_strategy: Word<Leasing>,
}

/// Bound of the number of connections.
#[word(Default)]
enum PoolType {
    /// No bound.
    #[default]
    Elastic,
    /// A bound: `max-connections`.
    Fixed,
    /// One connection per request.
    Disabled,
}

/// Order in which idle connections are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
pub enum Leasing {
    #[default]
    #[serde(rename = "lifo")]
    /// Most recently used first: connections of a past burst age and are closed.
    Newest,
    #[serde(rename = "fifo")]
    /// Least recently used first: all are used in turn.
    Oldest,
}

impl ConnectionPool {
    /// Reports settings without effect, and drops them.
    pub(super) fn check(&mut self, diagnostics: &mut Diagnostics) {
        let kind = self.kind.0;
        if kind != PoolType::Fixed {
            let timeout = Some(self.acquire_timeout).filter(|timeout| timeout.value != Or::default());
            let limits = [
                (self.max_connections.map(|limit| limit.span), "max-connections"),
                (timeout.map(|timeout| timeout.span), "acquire-timeout"),
            ];
            for (at, name) in limits {
                let Some(at) = at else { continue };
                diagnostics
                    .mistake(at.key(), format!("`{name}` has no effect without `type: fixed`"))
                    .help("add `type: fixed`, or remove it");
            }
            (self.max_connections, self.acquire_timeout) = (None, Spanned::default());
        }
        if kind == PoolType::Disabled && self.max_idle.is_given() && self.max_idle.get() > 0 {
            diagnostics
                .mistake(self.kind.span, "`max-idle` has no effect with `type: disabled`, which keeps no connection")
                .ineffective()
                .help("remove one of the two");
        }
        if kind == PoolType::Disabled {
            self.max_idle.value = Or::new(0);
        }
    }

    /// Returns the upper bound of connections over all workers.
    pub fn max_connections(&self) -> Option<NonZeroUsize> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let springs = NonZeroUsize::MIN.saturating_add(2 * cores.max(8) - 1);
        (self.kind.0 == PoolType::Fixed).then(|| self.max_connections.map_or(springs, |limit| limit.value))
    }
}
