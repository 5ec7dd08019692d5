//! `httpclient`: connections to upstreams.

pub(crate) mod model;
mod pool;
mod proxy;
mod raw;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::raw::{RawClientHttp2, RawClientTls, RawHttpClient};
pub(crate) use self::tls::own as tls;
use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::de::units::Size;
use crate::de::units::positive;
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::model::{Http2, HttpClient};
use crate::yaml::Span;

/// Room for large cookies.
const DEFAULT_HEADER_BYTES: u64 = 64 * 1024;
/// Bounds: smaller heads would refuse ordinary responses, larger ones would waste memory.
const HEADER_BYTES: std::ops::RangeInclusive<u64> = 1024..=16 * 1024 * 1024;

/// Checks `httpclient`.
pub(crate) fn check(raw: &RawHttpClient, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> HttpClient {
    let response_timeout = match raw.response_timeout {
        None if diagnostics.is_spring => None,
        given => Some(positive(given, 60, diagnostics)),
    };
    let (tls, handshake_timeout) = tls::said(raw, nodes, diagnostics);
    unread(raw, diagnostics);
    HttpClient {
        connect_timeout: positive(raw.connect_timeout, 5, diagnostics),
        response_timeout,
        read_timeout: positive(raw.read_timeout, 60, diagnostics),
        max_header_bytes: max_header_bytes(raw.max_header_size, diagnostics),
        http2: raw.http2.map_or(Http2::Auto, Into::into),
        tls: Arc::new(tls.unwrap_or_default()),
        handshake_timeout: handshake_timeout.unwrap_or(Duration::from_secs(10)),
        pool: pool::check(&raw.pool, diagnostics),
        proxy: raw.proxy.as_ref().and_then(|proxy| proxy::check(proxy, diagnostics)).map(Arc::new),
    }
}

fn max_header_bytes(size: Option<Spanned<Size>>, diagnostics: &mut Diagnostics) -> usize {
    let bytes = size.map_or(DEFAULT_HEADER_BYTES, |size| size.value.0);
    if let Some(size) = size.filter(|_| !HEADER_BYTES.contains(&bytes)) {
        diagnostics.error(size.span, format!("must be from 1KB to 16MB, got {bytes} bytes"));
    }
    usize::try_from(bytes).unwrap_or(usize::MAX)
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
        let why = "the client's `Accept-Encoding` reaches the upstream, and its answer the client as it is";
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

/// Reports a setting of Spring's that has no effect, with the reason.
fn no_effect(at: Span, name: &str, why: &str, diagnostics: &mut Diagnostics) {
    let message = format!("`{name}` has no effect here");
    if diagnostics.is_spring {
        diagnostics.info(at.key(), message).ineffective().help(why);
    } else {
        diagnostics.error(at.key(), message).help(format!("remove it: {why}"));
    }
}

impl From<RawClientHttp2> for Http2 {
    fn from(raw: RawClientHttp2) -> Self {
        match raw {
            RawClientHttp2::Auto => Self::Auto,
            RawClientHttp2::Off => Self::Off,
            RawClientHttp2::PriorKnowledge => Self::PriorKnowledge,
        }
    }
}
