//! Who the client is behind the proxies that we trust, and what the upstream is told of it.

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};

use crate::config::TrustedProxies;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The client's address: the peer's, unless the peer is a trusted proxy; then the right-most entry of
/// `X-Forwarded-For` that is no trusted proxy. Entries further left are the client's own word and count for nothing.
#[must_use]
pub fn client_ip(peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) -> IpAddr {
    let mut client = peer.to_canonical();
    if !trusted.trusts(client) {
        return client;
    }
    let lines: Vec<&HeaderValue> = headers.get_all(X_FORWARDED_FOR).iter().collect();
    for line in lines.iter().rev() {
        for entry in line.as_bytes().rsplit(|byte| *byte == b',') {
            let Some(ip) = parse_entry(entry) else { return client };
            client = ip;
            if !trusted.trusts(client) {
                return client;
            }
        }
    }
    client
}

/// An address as proxies write it: bare, with a port, or in brackets.
fn parse_entry(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let ip = text
        .parse::<IpAddr>()
        .or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()))
        .or_else(|_| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>())
        .ok()?;
    Some(ip.to_canonical())
}

/// Tells the upstream what this hop saw: `X-Forwarded-For`, `-Host`, `-Port`, `-Proto` and `Forwarded` (RFC 7239),
/// each appended to what the trusted proxies before us said (Spring's `XForwardedHeadersFilter`,
/// `ForwardedHeadersFilter`). Called for trusted peers only, before `Host` is replaced.
pub fn append(headers: &mut HeaderMap, peer: SocketAddr) {
    let peer_ip = peer.ip().to_canonical();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(is_port).unwrap_or("80").to_owned();
    let node = match peer_ip {
        IpAddr::V4(ip) => format!("{ip}:{}", peer.port()),
        IpAddr::V6(ip) => format!("[{ip}]:{}", peer.port()),
    };
    join(headers, X_FORWARDED_FOR, &peer_ip.to_string());
    join(headers, X_FORWARDED_PROTO, "http");
    join(headers, X_FORWARDED_PORT, &port);
    join(headers, FORWARDED, &format!("proto=http;host=\"{host}\";for=\"{node}\""));
    if !host.is_empty() {
        join(headers, X_FORWARDED_HOST, &host);
    }
}

/// Appends to the one line that the field becomes.
fn join(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    let mut line = Vec::new();
    for earlier in headers.get_all(&name) {
        line.extend_from_slice(earlier.as_bytes());
        line.push(b',');
    }
    line.extend_from_slice(value.as_bytes());
    if let Ok(line) = HeaderValue::from_bytes(&line) {
        headers.insert(name, line);
    }
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
    fn an_untrusted_peer_is_the_client_whatever_it_says() {
        assert_eq!(client("192.0.2.1", &["10.9.9.9"], &TrustedProxies::Nobody), "192.0.2.1");
        assert_eq!(client("192.0.2.1", &["10.9.9.9"], &networks(&["10.0.0.0/8"])), "192.0.2.1");
        assert_eq!(client("::ffff:192.0.2.1", &[], &TrustedProxies::Nobody), "192.0.2.1");
    }

    #[test]
    fn behind_trusted_proxies_the_right_most_untrusted_entry_counts() {
        let trusted = networks(&["10.0.0.0/8"]);
        assert_eq!(client("10.0.0.1", &["6.6.6.6, 192.0.2.7, 10.0.0.2"], &trusted), "192.0.2.7");
        assert_eq!(client("::ffff:10.0.0.1", &["6.6.6.6", "192.0.2.7:4711"], &trusted), "192.0.2.7");
        assert_eq!(client("10.0.0.1", &["[2001:db8::1]:80"], &trusted), "2001:db8::1");
        assert_eq!(client("10.0.0.1", &["192.0.2.7, junk, 10.0.0.2"], &trusted), "10.0.0.2");
        assert_eq!(client("10.0.0.1", &[], &trusted), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["10.0.0.3"], &trusted), "10.0.0.3");
    }

    #[test]
    fn this_hop_is_appended_to_what_trusted_proxies_said() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "shop.example:8080".parse().unwrap());
        headers.append("x-forwarded-for", "192.0.2.7".parse().unwrap());
        headers.append("x-forwarded-for", "10.0.0.2".parse().unwrap());
        append(&mut headers, "10.0.0.1:5555".parse().unwrap());
        assert_eq!(headers["x-forwarded-for"], "192.0.2.7,10.0.0.2,10.0.0.1");
        assert_eq!(headers["x-forwarded-host"], "shop.example:8080");
        assert_eq!(headers["x-forwarded-port"], "8080");
        assert_eq!(headers["x-forwarded-proto"], "http");
        assert_eq!(headers["forwarded"], "proto=http;host=\"shop.example:8080\";for=\"10.0.0.1:5555\"");
    }
}
