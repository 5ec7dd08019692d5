//! `httpclient`: connections to upstreams.

pub(crate) mod pool;
pub(crate) mod proxy;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::de::defaults::{Or, Word, secs};
use crate::de::nodes::Nodes;
use crate::de::ranged::{PositiveTime, Ranged};
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Size, Timeout};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::pool::{ConnectionPool, RawPool};
use crate::sections::http_client::proxy::{Proxy, RawProxy};
use crate::sections::no_effect;
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client_ssl::HandshakeTimeout;
use crate::sections::tls::files::both_given;
use crate::sections::tls::model::Tls;
use crate::sections::tls::{client, client_ssl};

/// Connections to upstreams.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttpClient {
    /// Timeout for connecting. Default {}; a bare number is milliseconds, as in Spring.
    connect_timeout: Or<PositiveTime, { secs(5) }>,
    /// Timeout for the head of a response; `0` or `-1`: none. Default {}; none in a Spring file, as in Spring.
    response_timeout: Or<Timeout, { secs(60) }>,
    /// Timeout for each part of a response body, or of a request body that is still being sent; `0` or `-1`: none. Default {}; none in a Spring file, as in Spring.
    read_timeout: Or<Timeout, { secs(60) }>,
    /// Upper bound of a response's head.
    max_header_size: Or<HeaderBytes, { 64 << 10 }>,
    /// Upper bound of header fields in a response.
    max_headers: Or<MaxHeaders, 200>,
    /// HTTP/2 with upstreams: `auto` uses it over TLS if the upstream selects it, `off` never, `prior-knowledge` also without TLS.
    http2: Word<Http2>,
    /// TLS to `https` targets of routes without their own `tls`.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    tls: Option<NodeRef>,
    /// Connection pool.
    pool: RawPool,
    /// Proxy for connections to upstreams.
    proxy: Option<Spanned<RawProxy>>,
    // Spring's TLS.
    ssl: Option<NodeRef>,
    /// Spring's WebSocket client.
    #[cfg_attr(test, schemars(skip))]
    websocket: RawWebsocket,
    max_initial_line_length: Option<Spanned<String>>,
    wiretap: Option<Spanned<bool>>,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
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

/// Checks `httpclient`.
pub(crate) fn check(raw: &RawHttpClient, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> HttpClient {
    let (tls, handshake_timeout) = tls(raw, nodes, diagnostics);
    unread(raw, diagnostics);
    HttpClient {
        connect_timeout: raw.connect_timeout.get(),
        response_timeout: raw.response_timeout.get(),
        read_timeout: raw.read_timeout.get(),
        max_header_bytes: raw.max_header_size.get(),
        max_headers: raw.max_headers.get(),
        http2: raw.http2.0,
        tls: Arc::new(tls.unwrap_or_default()),
        handshake_timeout: handshake_timeout.get(),
        pool: pool::check(&raw.pool, diagnostics),
        proxy: raw.proxy.as_ref().and_then(|proxy| proxy::check(proxy, diagnostics)).map(Arc::new),
    }
}

/// Checks `tls` or `ssl`. Returns the settings, `None` if absent or after an error, and the handshake timeout.
fn tls(raw: &RawHttpClient, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> (Option<Tls>, HandshakeTimeout) {
    let node = |whole: Option<_>| whole.and_then(|node| nodes.get(node));
    match (node(raw.tls), node(raw.ssl)) {
        (Some(tls), Some(ssl)) => {
            both_given(ssl.span, ("ssl", "tls"), tls.span, diagnostics);
            (None, HandshakeTimeout::default())
        }
        (Some(tls), None) => (client::check(tls, diagnostics), HandshakeTimeout::default()),
        (None, Some(ssl)) => client_ssl::check(ssl, nodes, diagnostics),
        (None, None) => (None, HandshakeTimeout::default()),
    }
}

/// Reports settings of Spring's client that have no effect here.
fn unread(raw: &RawHttpClient, diagnostics: &mut Diagnostics) {
    let on = |flag: Option<Spanned<bool>>| flag.filter(|on| on.value).map(|on| on.span);
    let (line, frame) = (&raw.max_initial_line_length, raw.websocket.max_frame_payload_length);
    let forwarded = "the client's `Accept-Encoding` reaches the upstream, and its response the client as it is";
    let keys = [
        (
            line.as_ref().map(|at| at.span),
            "max-initial-line-length",
            "the status line is a part of the head: `max-header-size`",
        ),
        (on(raw.wiretap), "wiretap", "`log.level: debug` logs failures; use tcpdump for traffic"),
        (on(raw.compression), "compression", forwarded),
        (
            frame.map(|at| at.span),
            "websocket.max-frame-payload-length",
            "frames are forwarded unread, whatever their length",
        ),
    ];
    no_effect("httpclient.", &keys, diagnostics);
    if let Some(off) = raw.websocket.proxy_ping.filter(|on| !on.value) {
        diagnostics
            .mistake(
                off.span.key(),
                "`proxy-ping: false` is not supported: all frames are forwarded unread, pings included",
            )
            .help("remove it");
    }
}
