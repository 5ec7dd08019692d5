//! Client address behind trusted proxies.

use std::net::{IpAddr, SocketAddr};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use tollgate_config::TrustedProxies;

/// Name of the field that lists the addresses of the client and of the proxies.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the client's address: the peer's, unless the peer is a trusted proxy. Then it is the rightmost entry of
/// `X-Forwarded-For` that is not a trusted proxy. Entries further left come from the client and are ignored.
#[must_use]
pub fn client_ip(peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) -> IpAddr {
    let mut client = peer.to_canonical();
    if !trusted.trusts(client) {
        return client;
    }
    let lines: Vec<&HeaderValue> = headers.get_all(X_FORWARDED_FOR).iter().collect();
    for line in lines.iter().rev() {
        for entry in line.as_bytes().rsplit(|byte| *byte == b',') {
            let Some(ip) = parse_address(entry) else { return client };
            client = ip;
            if !trusted.trusts(client) {
                return client;
            }
        }
    }
    client
}

/// Parses an address as proxies write it: bare, with a port, or in brackets.
pub(super) fn parse_address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let ip = text
        .parse::<IpAddr>()
        .or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()))
        .or_else(|_| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>())
        .ok()?;
    Some(ip.to_canonical())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn networks(list: &[&str]) -> TrustedProxies {
        TrustedProxies::Networks(list.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn client(peer: &str, lines: &[&str], trusted: &TrustedProxies) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        client_ip(peer.parse().unwrap(), &headers, trusted).to_string()
    }

    #[test]
    fn an_untrusted_peer_is_the_client() {
        assert_eq!(client("192.0.2.1", &["10.9.9.9"], &TrustedProxies::None), "192.0.2.1");
        assert_eq!(client("192.0.2.1", &["10.9.9.9"], &networks(&["10.0.0.0/8"])), "192.0.2.1");
        assert_eq!(client("::ffff:192.0.2.1", &[], &TrustedProxies::None), "192.0.2.1");
    }

    #[test]
    fn behind_trusted_proxies_the_rightmost_untrusted_entry_is_the_client() {
        let trusted = networks(&["10.0.0.0/8"]);
        assert_eq!(client("10.0.0.1", &["6.6.6.6, 192.0.2.7, 10.0.0.2"], &trusted), "192.0.2.7");
        assert_eq!(client("::ffff:10.0.0.1", &["6.6.6.6", "192.0.2.7:4711"], &trusted), "192.0.2.7");
        assert_eq!(client("10.0.0.1", &["[2001:db8::1]:80"], &trusted), "2001:db8::1");
        assert_eq!(client("10.0.0.1", &["192.0.2.7, junk, 10.0.0.2"], &trusted), "10.0.0.2");
        assert_eq!(client("10.0.0.1", &[], &trusted), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["10.0.0.3"], &trusted), "10.0.0.3");
    }
}
