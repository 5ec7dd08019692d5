//! Forwarded fields: the client's address as trusted proxies report it, and the fields set for the upstream.

mod set;

use std::net::IpAddr;

use http::Request;
use http::header::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

pub use self::set::{Hop, set_forwarded_headers};
use crate::upstream::forwarded::set::{X_FORWARDED_PREFIX, set_field};
use tollgate_config::{HeaderAction, TrustedProxies};
use tollgate_filters::client_address::client_address;
pub use tollgate_filters::client_address::{X_FORWARDED_FOR, parse_address};

/// Returns the client's address: the peer's, or the one that `trusted` proxies report.
#[must_use]
pub fn client_ip(peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) -> IpAddr {
    client_address(peer, headers, |proxy| trusted.trusts(proxy))
}

/// Path of the request of a trusted peer, before any filter. A request extension.
#[derive(Clone, Debug)]
pub struct OriginalPath(pub Box<str>);

/// Sets `X-Forwarded-Prefix` to the prefix that the path has lost since the request arrived. It runs after the route's
/// filters.
///
/// As in Spring, paths are compared after percent-decoding and without a trailing slash. Encoded separators stay encoded: a
/// prefix `//evil.example` would be another host in a link. If the path is not a suffix of the original path, the field
/// is not set.
#[must_use]
pub fn set_forwarded_prefix<B>(mut request: Request<B>, action: HeaderAction) -> Request<B> {
    if let Some(OriginalPath(original)) = request.extensions_mut().remove::<OriginalPath>()
        && let Some(prefix) = prefix(&original, request.uri().path())
    {
        set_field(request.headers_mut(), X_FORWARDED_PREFIX, HeaderValue::try_from(prefix).ok(), action);
    }
    request
}

fn prefix(original: &str, path: &str) -> Option<String> {
    if original == path {
        return None;
    }
    let (original, path) = (decoded(original.trim_end_matches('/')), decoded(path.trim_end_matches('/')));
    let prefix = original.strip_suffix(path.as_slice()).filter(|prefix| !prefix.is_empty())?;
    Some(String::from_utf8_lossy(prefix).into_owned())
}

/// Decodes a path in normal form, except `%2F` and `%5C`.
fn decoded(path: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find("%2F").into_iter().chain(rest.find("%5C")).min() {
        let (before, from) = rest.split_at(at);
        let (separator, after) = from.split_at(3);
        out.extend(percent_decode_str(before));
        out.extend_from_slice(separator.as_bytes());
        rest = after;
    }
    out.extend(percent_decode_str(rest));
    out
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

    #[test]
    fn the_removed_start_of_the_path_is_the_prefix() {
        for (original, path, expected) in [
            ("/api/x", "/x", Some("/api")),
            ("/api/v1/x/", "/x", Some("/api/v1")),
            ("/api", "/", Some("/api")),
            ("/a%20b/x", "/x", Some("/a b")),
            ("/a/%78", "/x", Some("/a")),
            ("/%2Fevil.example/x", "/x", Some("/%2Fevil.example")),
            ("/%5Cevil.example%2Fa%20b/x", "/x", Some("/%5Cevil.example%2Fa b")),
            ("/a/%2Fx", "/x", None),
            ("/x", "/x", None),
            ("/x/", "/x", None),
            ("/x", "/api/x", None),
            ("/api/x", "/v2/x", None),
            ("/apix", "/x", None),
        ] {
            assert_eq!(prefix(original, path).as_deref(), expected, "{original} {path}");
        }
    }
}
