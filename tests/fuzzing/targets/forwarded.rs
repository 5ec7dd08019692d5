//! `X-Forwarded-For` and `Forwarded`: clients cannot choose the address that counts.
//!
//! Input: lines. The first byte of a line selects the field.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::HeaderMap;
use http::header::{FORWARDED, HOST, HeaderName, HeaderValue};
use tollgate_config::{ForwardedHeaders, HeaderAction, TrustedProxies};
use tollgate_proxy::upstream::forwarded::{Hop, client_ip, set_forwarded_headers};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

pub fn run(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("shop.example:81"));
    for line in bytes.split(|byte| *byte == b'\n').take(50) {
        let Some((kind, value)) = line.split_first() else { continue };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        headers.append(if *kind == b'f' { FORWARDED } else { X_FORWARDED_FOR }, value);
    }
    let trusted = TrustedProxies::Networks(vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]);
    let client = client_ip(PEER, &headers, &trusted);
    assert_eq!(client, client.to_canonical());
    assert_eq!(client_ip("192.0.2.1".parse().unwrap(), &headers, &trusted).to_string(), "192.0.2.1", "untrusted peer");
    if !trusted.trusts(client) {
        only_the_right_part_counts(&headers, client, &trusted);
    }
    for (action, trusted_only) in
        [(HeaderAction::Append, true), (HeaderAction::Append, false), (HeaderAction::Replace, true)]
    {
        let wanted = ForwardedHeaders {
            for_: action,
            host: action,
            port: action,
            proto: action,
            prefix: HeaderAction::Keep,
            forwarded: true,
            by: false,
            trusted_only,
        };
        passed_on(headers.clone(), &wanted, &trusted);
    }
}

/// Entries to the left of the client's own come from the client.
fn only_the_right_part_counts(headers: &HeaderMap, client: IpAddr, trusted: &TrustedProxies) {
    let mut forged = HeaderMap::new();
    forged.append(X_FORWARDED_FOR, HeaderValue::from_static("203.0.113.9, 10.0.0.9"));
    for line in headers.get_all(X_FORWARDED_FOR) {
        forged.append(X_FORWARDED_FOR, line.clone());
    }
    assert_eq!(client_ip(PEER, &forged, trusted), client, "a forged entry counts: {forged:?}");
}

fn passed_on(mut headers: HeaderMap, wanted: &ForwardedHeaders, trusted: &TrustedProxies) {
    let before = client_ip(PEER, &headers, trusted);
    let hop = Hop { peer: SocketAddr::new(PEER, 4711), local: None, tls: true };
    set_forwarded_headers(&mut headers, hop, wanted, trusted);
    for name in [X_FORWARDED_FOR, FORWARDED] {
        assert_eq!(headers.get_all(&name).iter().count(), 1, "{name} has several lines");
    }
    let addresses = headers[&X_FORWARDED_FOR].as_bytes();
    let entries: Vec<_> = addresses.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    assert_eq!(entries.last(), Some(&&b"10.0.0.1"[..]), "{entries:?}");
    let forwarded = headers[FORWARDED].as_bytes();
    assert!(forwarded.ends_with(b"proto=https;host=\"shop.example:81\";for=\"10.0.0.1:4711\""), "{headers:?}");
    if wanted.for_ == HeaderAction::Replace {
        assert_eq!(entries.len(), 1);
    } else if wanted.trusted_only {
        let parsed: Vec<_> = entries.iter().map(|entry| address(entry)).collect();
        assert!(parsed.iter().all(|ip| ip.is_some_and(|ip| trusted.trusts(ip))), "{entries:?}");
    } else {
        assert_eq!(client_ip(PEER, &headers, trusted), before, "the next proxy sees another client: {headers:?}");
    }
}

/// Parses an address as proxies write it.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse();
    let ip = bare.or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip())).ok()?;
    Some(ip.to_canonical())
}
