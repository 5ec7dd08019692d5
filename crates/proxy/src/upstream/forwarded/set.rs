//! Fields that describe this hop to the upstream (Spring's `XForwardedHeadersFilter` and `ForwardedHeadersFilter`).

use std::net::{IpAddr, SocketAddr};

use http::header::{Entry, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};

use crate::upstream::forwarded::{X_FORWARDED_FOR, parse_address};
use tollgate_config::{ForwardedHeaders, HeaderAction, TrustedProxies};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Space for the text of a field: `Forwarded` with a host of usual length.
const TEXT_BYTES: usize = 128;

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
    let host = headers.get(HOST).filter(|host| host.to_str().is_ok_and(|host| !host.is_empty())).cloned();
    let host_text = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
    let (proto, default_port) = if hop.tls { ("https", "443") } else { ("http", "80") };
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = host_text.rsplit_once(':').map(|(_, port)| port).filter(is_port);
    if configured.trusted_only {
        if configured.for_ == HeaderAction::Append {
            retain_entries(headers, X_FORWARDED_FOR, |entry| parse_address(entry).is_some_and(|ip| trusted.trusts(ip)));
        }
        if configured.forwarded {
            retain_entries(headers, FORWARDED, |element| for_address(element).is_some_and(|ip| trusted.trusts(ip)));
        }
    }
    // The map grows once, and one buffer holds each text before it becomes a value.
    headers.reserve(5);
    let mut text = Vec::with_capacity(TEXT_BYTES);
    push_ip(&mut text, hop.peer.ip().to_canonical());
    set_field(headers, X_FORWARDED_FOR, HeaderValue::from_bytes(&text).ok(), configured.for_);
    set_field(headers, X_FORWARDED_PROTO, Some(HeaderValue::from_static(proto)), configured.proto);
    let port = port.map_or_else(|| Ok(HeaderValue::from_static(default_port)), HeaderValue::from_str);
    set_field(headers, X_FORWARDED_PORT, port.ok(), configured.port);
    if configured.forwarded {
        text.clear();
        for part in ["proto=", proto, ";host=\"", host_text, "\";for=\""] {
            text.extend_from_slice(part.as_bytes());
        }
        push_node(&mut text, hop.peer);
        if let Some(local) = hop.local.filter(|_| configured.by) {
            text.extend_from_slice(b"\";by=\"");
            push_node(&mut text, local);
        }
        text.push(b'"');
        set_field(headers, FORWARDED, HeaderValue::from_bytes(&text).ok(), HeaderAction::Append);
    }
    if host.is_some() {
        set_field(headers, X_FORWARDED_HOST, host, configured.host);
    }
}

/// Appends a node (RFC 7239 §6).
fn push_node(text: &mut Vec<u8>, address: SocketAddr) {
    let ip = address.ip().to_canonical();
    if ip.is_ipv6() {
        text.push(b'[');
    }
    push_ip(text, ip);
    text.extend_from_slice(if ip.is_ipv6() { b"]:" } else { b":" });
    text.extend_from_slice(itoa::Buffer::new().format(address.port()).as_bytes());
}

/// Appends an address. The standard formatter takes 700 instructions for one of IPv4.
fn push_ip(text: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            for (at, octet) in ip.octets().into_iter().enumerate() {
                if at > 0 {
                    text.push(b'.');
                }
                text.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
            }
        }
        IpAddr::V6(ip) => text.extend_from_slice(ip.to_string().as_bytes()),
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

/// Sets or appends `value`, if there is one. The field has one line afterwards.
pub(super) fn set_field(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>, action: HeaderAction) {
    let Some(value) = value.filter(|_| action != HeaderAction::Keep) else { return };
    match headers.entry(name) {
        Entry::Vacant(field) => {
            field.insert(value);
        }
        Entry::Occupied(mut field) if action == HeaderAction::Append => {
            let mut line = Vec::new();
            for earlier in field.iter() {
                line.extend_from_slice(earlier.as_bytes());
                line.push(b',');
            }
            line.extend_from_slice(value.as_bytes());
            if let Ok(line) = HeaderValue::from_bytes(&line) {
                field.insert(line);
            }
        }
        Entry::Occupied(mut field) => {
            field.insert(value);
        }
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

    #[test]
    fn addresses_are_written_as_the_standard_formatter_does() {
        for text in ["0.0.0.0", "192.0.2.7", "255.255.255.255", "2001:db8::7", "::1"] {
            let mut written = Vec::new();
            push_ip(&mut written, text.parse().unwrap());
            assert_eq!(String::from_utf8(written).unwrap(), text);
        }
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
