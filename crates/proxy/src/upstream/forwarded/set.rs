//! Fields that describe this hop to the upstream (Spring's `XForwardedHeadersFilter` and `ForwardedHeadersFilter`).

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};

use crate::upstream::forwarded::{X_FORWARDED_FOR, parse_address};
use tollgate_config::{ForwardedHeaders, HeaderAction, TrustedProxies};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Connection of a request.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// Peer address.
    pub peer: SocketAddr,
    /// Local address.
    pub local: Option<SocketAddr>,
    /// True under TLS.
    pub tls: bool,
}

/// Sets `X-Forwarded-For`, `-Host`, `-Port`, `-Proto` and `Forwarded` (RFC 7239) for the upstream. `configured` decides
/// whether they are appended to the values of the trusted proxies or replace them. Called for trusted peers, and for those
/// that a PROXY header names, before `Host` is replaced.
pub fn set_forwarded_headers(
    headers: &mut HeaderMap,
    hop: Hop,
    configured: &ForwardedHeaders,
    trusted: &TrustedProxies,
) {
    let peer = hop.peer.ip().to_canonical();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let (proto, default_port) = if hop.tls { ("https", "443") } else { ("http", "80") };
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(is_port).unwrap_or(default_port).to_owned();
    if configured.trusted_only {
        if configured.for_ == HeaderAction::Append {
            retain_entries(headers, X_FORWARDED_FOR, |entry| parse_address(entry).is_some_and(|ip| trusted.trusts(ip)));
        }
        if configured.forwarded {
            retain_entries(headers, FORWARDED, |element| for_address(element).is_some_and(|ip| trusted.trusts(ip)));
        }
    }
    set_field(headers, X_FORWARDED_FOR, &peer.to_string(), configured.for_);
    set_field(headers, X_FORWARDED_PROTO, proto, configured.proto);
    set_field(headers, X_FORWARDED_PORT, &port, configured.port);
    if !host.is_empty() {
        set_field(headers, X_FORWARDED_HOST, &host, configured.host);
    }
    if configured.forwarded {
        let by = match hop.local.filter(|_| configured.by) {
            Some(local) => format!(";by=\"{}\"", node(local)),
            None => String::new(),
        };
        let element = format!("proto={proto};host=\"{host}\";for=\"{}\"{by}", node(hop.peer));
        set_field(headers, FORWARDED, &element, HeaderAction::Append);
    }
}

/// Formats an address as a node (RFC 7239 §6).
fn node(address: SocketAddr) -> String {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => format!("{ip}:{}", address.port()),
        IpAddr::V6(ip) => format!("[{ip}]:{}", address.port()),
    }
}

/// Parses the address in the `for` parameter of an element.
fn for_address(element: &[u8]) -> Option<IpAddr> {
    element.split(|byte| *byte == b';').find_map(|pair| {
        let (name, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("for") {
            parse_address(value.trim().trim_matches('"').as_bytes())
        } else {
            None
        }
    })
}

/// Removes the entries of a list for which `is_kept` is false.
fn retain_entries(headers: &mut HeaderMap, name: HeaderName, is_kept: impl Fn(&[u8]) -> bool) {
    let mut line = Vec::new();
    for value in headers.get_all(&name) {
        for entry in value.as_bytes().split(|byte| *byte == b',').filter(|entry| is_kept(entry)) {
            if !line.is_empty() {
                line.push(b',');
            }
            line.extend_from_slice(entry.trim_ascii());
        }
    }
    match HeaderValue::from_bytes(&line) {
        Ok(line) if !line.is_empty() => headers.insert(name, line),
        _ => headers.remove(name),
    };
}

/// Sets or appends `value`. The field has one line afterwards.
pub(super) fn set_field(headers: &mut HeaderMap, name: HeaderName, value: &str, action: HeaderAction) {
    let mut line = Vec::new();
    match action {
        HeaderAction::Keep => return,
        HeaderAction::Replace => {}
        HeaderAction::Append => {
            for earlier in headers.get_all(&name) {
                line.extend_from_slice(earlier.as_bytes());
                line.push(b',');
            }
        }
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

    fn forwarded_headers(configured: &ForwardedHeaders, hop: Hop) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "shop.example:8080".parse().unwrap());
        headers.append("x-forwarded-for", "192.0.2.7".parse().unwrap());
        headers.append("x-forwarded-for", "10.0.0.2".parse().unwrap());
        headers.append("forwarded", "for=\"192.0.2.7:99\", proto=https;For=10.0.0.2".parse().unwrap());
        headers.append("forwarded", "proto=http".parse().unwrap());
        set_forwarded_headers(
            &mut headers,
            hop,
            configured,
            &TrustedProxies::Networks(vec!["10.0.0.0/8".parse().unwrap()]),
        );
        headers
    }

    fn hop() -> Hop {
        Hop { peer: "10.0.0.1:5555".parse().unwrap(), local: Some("[::1]:80".parse().unwrap()), tls: false }
    }

    #[test]
    fn this_hop_is_appended_to_the_entries_of_trusted_proxies() {
        let headers = forwarded_headers(&ForwardedHeaders::default(), hop());
        assert_eq!(headers["x-forwarded-for"], "192.0.2.7,10.0.0.2,10.0.0.1");
        assert_eq!(headers["x-forwarded-host"], "shop.example:8080");
        assert_eq!(headers["x-forwarded-port"], "8080");
        assert_eq!(headers["x-forwarded-proto"], "http");
        let all = "for=\"192.0.2.7:99\", proto=https;For=10.0.0.2,proto=http,\
                   proto=http;host=\"shop.example:8080\";for=\"10.0.0.1:5555\"";
        assert_eq!(headers["forwarded"], all);
    }

    #[test]
    fn only_trusted_entries_remain_as_in_spring() {
        let configured = ForwardedHeaders { trusted_only: true, by: true, ..ForwardedHeaders::default() };
        let headers = forwarded_headers(&configured, Hop { tls: true, ..hop() });
        assert_eq!(headers["x-forwarded-for"], "10.0.0.2,10.0.0.1");
        assert_eq!(headers["x-forwarded-proto"], "https");
        let kept = "proto=https;For=10.0.0.2,\
                    proto=https;host=\"shop.example:8080\";for=\"10.0.0.1:5555\";by=\"[::1]:80\"";
        assert_eq!(headers["forwarded"], kept);
    }

    #[test]
    fn each_field_can_be_replaced_or_left_unchanged() {
        let configured = ForwardedHeaders {
            for_: HeaderAction::Replace,
            host: HeaderAction::Keep,
            port: HeaderAction::Keep,
            forwarded: false,
            ..ForwardedHeaders::default()
        };
        let headers = forwarded_headers(&configured, hop());
        assert_eq!(headers["x-forwarded-for"], "10.0.0.1");
        assert!(!headers.contains_key("x-forwarded-host") && !headers.contains_key("x-forwarded-port"));
        assert_eq!(headers.get_all("forwarded").iter().count(), 2, "unchanged");
    }
}
