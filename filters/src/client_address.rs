//! Addresses of clients, also behind trusted proxies.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue};

use crate::context::RequestContext;

/// Name of the field that lists the addresses of the client and of the proxies.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Requests whose address was needed and unknown.
static WITHOUT_ADDRESS: AtomicU64 = AtomicU64::new(0);

/// Returns the client's address: the peer's, unless the peer is a trusted proxy. Then it is the rightmost entry of
/// `X-Forwarded-For` that is not a trusted proxy. Entries further left come from the client and are ignored.
#[must_use]
pub fn client_address(peer: IpAddr, headers: &HeaderMap, is_trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
    let mut client = peer.to_canonical();
    if !is_trusted(client) {
        return client;
    }
    let lines: Vec<&HeaderValue> = headers.get_all(X_FORWARDED_FOR).iter().collect();
    for line in lines.iter().rev() {
        for entry in line.as_bytes().rsplit(|byte| *byte == b',') {
            let Some(ip) = parse_address(entry) else { return client };
            client = ip;
            if !is_trusted(client) {
                return client;
            }
        }
    }
    client
}

/// Parses an address as proxies write it: bare, with a port, or in brackets.
#[must_use]
pub fn parse_address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let ip = text
        .parse::<IpAddr>()
        .or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()))
        .or_else(|_| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>())
        .ok()?;
    Some(ip.to_canonical())
}

/// Returns the number of requests whose client address was needed for a key and unknown, since the start of the process.
/// The first is also logged. Such requests have no key, so that limits handle all of them alike.
pub fn requests_without_address() -> u64 {
    WITHOUT_ADDRESS.load(Ordering::Relaxed)
}

/// Returns the address in a request's [`RequestContext`]; with the feature `axum`, otherwise that in its `ConnectInfo`, or in the
/// `MockConnectInfo` of a test.
#[inline]
pub(crate) fn of_extensions(extensions: &Extensions) -> Option<IpAddr> {
    let in_context = extensions.get::<RequestContext>().and_then(|context| context.client_ip);
    in_context.or_else(|| of_connection(extensions)).or_else(note_missing)
}

#[cfg(feature = "axum")]
fn of_connection(extensions: &Extensions) -> Option<IpAddr> {
    use axum::extract::ConnectInfo;
    use axum::extract::connect_info::MockConnectInfo;

    let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0);
    peer.or_else(|| Some(extensions.get::<MockConnectInfo<SocketAddr>>()?.0)).map(|peer| peer.ip())
}

#[cfg(not(feature = "axum"))]
fn of_connection(_: &Extensions) -> Option<IpAddr> {
    None
}

/// Counts a request without an address, and logs the first.
#[cold]
pub(crate) fn note_missing() -> Option<IpAddr> {
    if WITHOUT_ADDRESS.fetch_add(1, Ordering::Relaxed) == 0 {
        tracing::warn!(
            "request without a client address: set RequestContext::client_ip, or serve axum with \
             into_make_service_with_connect_info::<SocketAddr>() and enable the feature axum"
        );
    }
    None
}
