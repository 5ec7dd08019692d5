//! `httpclient`: connections to upstreams.

pub(crate) mod pool;
pub(crate) mod proxy;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::de::nodes::Nodes;
use crate::de::ranged::{PositiveTime, Ranged, positive};
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Size, Timeout};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::pool::{ConnectionPool, RawPool};
use crate::sections::http_client::proxy::{Proxy, RawProxy};
use crate::sections::no_effect;
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::files::both_given;
use crate::sections::tls::model::Tls;
use crate::sections::tls::{client, client_ssl};

/// Connections to upstreams.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttpClient {
    /// Timeout for connecting. Default 5s; a bare number is milliseconds, as in Spring.
    connect_timeout: Option<Spanned<PositiveTime>>,
    /// Timeout for the head of a response; `0` or `-1`: none. Default 60s; none in a Spring file, as in Spring.
    response_timeout: Option<Timeout>,
    /// Timeout for each part of a response body, or of a request body that is still being sent; `0` or `-1`: none. Default 60s; none in a Spring file, as in Spring.
    read_timeout: Option<Timeout>,
    /// Upper bound of a response's head. Default 64KB.
    max_header_size: Option<Spanned<HeaderBytes>>,
    /// Upper bound of header fields in a response. Default 200.
    max_headers: Option<Spanned<MaxHeaders>>,
    /// HTTP/2 with upstreams: `auto` uses it over TLS if the upstream selects it, `off` never, `prior-knowledge` also without TLS. Default `auto`.
    http2: Option<Http2>,
    /// TLS to `https` targets of routes without their own `tls`.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    tls: Option<NodeRef>,
    /// Connection pool.
    pool: RawPool,
    /// Proxy for connections to upstreams.
    proxy: Option<Spanned<RawProxy>>,
    /// Spring's TLS.
    #[cfg_attr(test, schemars(skip))]
    ssl: Option<NodeRef>,
    /// Spring's WebSocket client.
    #[cfg_attr(test, schemars(skip))]
    websocket: RawWebsocket,
    #[cfg_attr(test, schemars(skip))]
    max_initial_line_length: Option<Spanned<String>>,
    #[cfg_attr(test, schemars(skip))]
    wiretap: Option<Spanned<bool>>,
    #[cfg_attr(test, schemars(skip))]
    compression: Option<Spanned<bool>>,
}

/// Spring's WebSocket client.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawWebsocket {
    max_frame_payload_length: Option<Spanned<u64>>,
    proxy_ping: Option<Spanned<bool>>,
}

/// Connections to upstreams.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpClient {
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for the head of a response; `None`: no limit.
    pub response_timeout: Option<Duration>,
    /// Timeout for each part of a response body, or of a request body beside it; `None`: no limit.
    pub read_timeout: Option<Duration>,
    /// Upper bound of a response's head in bytes.
    pub max_header_bytes: usize,
    /// Upper bound of header fields in a response.
    pub max_headers: usize,
    /// Use of HTTP/2.
    pub http2: Http2,
    /// TLS to `https` targets of routes without their own.
    pub tls: Arc<Tls>,
    /// Timeout for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Connection pool.
    pub pool: ConnectionPool,
    /// Proxy for connections.
    pub proxy: Option<Arc<Proxy>>,
}

/// Use of HTTP/2 with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Http2 {
    /// Over TLS if the upstream selects it; never without TLS.
    Auto,
    /// Never.
    Off,
    /// Over TLS if the upstream selects it, and always without TLS (h2c with prior knowledge).
    PriorKnowledge,
}

/// Room for large cookies.
const DEFAULT_HEADER_BYTES: u64 = 64 * 1024;

/// Twice the usual limit of servers and proxies.
const DEFAULT_HEADERS: usize = 200;

/// Upper bound of header fields. `HeaderMap` of the `http` crate holds at most 32768.
pub(crate) type MaxHeaders = Ranged<usize, 1, 10_000>;

/// Upper bound of a response's head: smaller ones would refuse ordinary responses, larger ones would waste memory.
type HeaderBytes = Ranged<Size, 1024, { 16 << 20 }>;

/// Checks `httpclient`.
pub(crate) fn check(raw: &RawHttpClient, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> HttpClient {
    let timeout = |given: Option<Timeout>| given.map_or(Some(Duration::from_secs(60)), |timeout| timeout.0);
    let (tls, handshake_timeout) = tls(raw, nodes, diagnostics);
    unread(raw, diagnostics);
    let max_header_bytes =
        raw.max_header_size.map_or(DEFAULT_HEADER_BYTES, |size| size.within("max-header-size", diagnostics).0);
    HttpClient {
        connect_timeout: positive(raw.connect_timeout, 5, diagnostics),
        response_timeout: timeout(raw.response_timeout),
        read_timeout: timeout(raw.read_timeout),
        max_header_bytes: usize::try_from(max_header_bytes).unwrap_or(usize::MAX),
        max_headers: raw.max_headers.map_or(DEFAULT_HEADERS, |count| count.within("max-headers", diagnostics)),
        http2: raw.http2.unwrap_or(Http2::Auto),
        tls: Arc::new(tls.unwrap_or_default()),
        handshake_timeout: handshake_timeout.unwrap_or(Duration::from_secs(10)),
        pool: pool::check(&raw.pool, diagnostics),
        proxy: raw.proxy.as_ref().and_then(|proxy| proxy::check(proxy, diagnostics)).map(Arc::new),
    }
}

/// Checks `tls` or `ssl`. Returns the settings and the handshake timeout; `None` if absent or after an error.
fn tls(raw: &RawHttpClient, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> (Option<Tls>, Option<Duration>) {
    let node = |whole: Option<_>| whole.and_then(|node| nodes.get(node));
    match (node(raw.tls), node(raw.ssl)) {
        (Some(tls), Some(ssl)) => {
            both_given(ssl.span, ("ssl", "tls"), tls.span, diagnostics);
            (None, None)
        }
        (Some(tls), None) => (client::check(tls, diagnostics), None),
        (None, Some(ssl)) => client_ssl::check(ssl, nodes, diagnostics),
        (None, None) => (None, None),
    }
}

/// Reports settings of Spring's client that have no effect here.
fn unread(raw: &RawHttpClient, diagnostics: &mut Diagnostics) {
    if let Some(length) = &raw.max_initial_line_length {
        no_effect(
            length.span,
            "httpclient.max-initial-line-length",
            "the status line is a part of the head: `max-header-size`",
            diagnostics,
        );
    }
    if let Some(on) = raw.wiretap.filter(|on| on.value) {
        no_effect(
            on.span,
            "httpclient.wiretap",
            "`log.level: debug` logs failures; use tcpdump for traffic",
            diagnostics,
        );
    }
    if let Some(on) = raw.compression.filter(|on| on.value) {
        let why = "the client's `Accept-Encoding` reaches the upstream, and its response the client as it is";
        no_effect(on.span, "httpclient.compression", why, diagnostics);
    }
    if let Some(length) = raw.websocket.max_frame_payload_length {
        no_effect(
            length.span,
            "httpclient.websocket.max-frame-payload-length",
            "frames are forwarded unread, whatever their length",
            diagnostics,
        );
    }
    if let Some(off) = raw.websocket.proxy_ping.filter(|on| !on.value) {
        diagnostics
            .mistake(
                off.span.key(),
                "`proxy-ping: false` is not supported: all frames are forwarded unread, pings included",
            )
            .help("remove it");
    }
}
