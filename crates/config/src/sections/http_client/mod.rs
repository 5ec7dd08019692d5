//! `httpclient`: connections to upstreams.

pub(crate) mod pool;
pub(crate) mod proxy;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::de::{Or, PositiveTime, Ranged, Size, Spanned, Subtree, Timeout, Word, secs};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::pool::ConnectionPool;
use crate::sections::http_client::proxy::{Proxy, RawProxy};
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client::Tls;
use crate::sections::tls::client_ssl::HandshakeTimeout;
use crate::sections::tls::files::both_given;
use crate::sections::tls::{client, client_ssl};

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
