//! Cache keys: digests, so that no credentials are stored in memory.

use http::Request;
use http::header::{AUTHORIZATION, COOKIE, FORWARDED, HOST, HeaderMap, HeaderName, IF_RANGE, RANGE};
use sha2::{Digest, Sha256};

use super::cache_control::{name_and_argument, split};
use super::extensions::ReceivedTarget;
use crate::context::ReceivedPath;

/// The key of a cache entry.
pub(super) type Key = [u8; 32];

/// Request fields that always distinguish responses: a response is only for requests with the same credentials, under
/// the same origin as trusted proxies report it.
const ALWAYS_VARY: [HeaderName; 8] = [
    AUTHORIZATION,
    COOKIE,
    RANGE,
    IF_RANGE,
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-prefix"),
];

/// Returns the key of the resource of `request` in `scope`.
pub(super) fn resource<B>(request: &Request<B>, scope: &str) -> Key {
    let mut digest = Sha256::new();
    feed(&mut digest, scope.as_bytes());
    let host = request.headers().get(HOST).map_or(&b""[..], |host| host.as_bytes());
    let authority = request.uri().authority().map_or(host, |authority| authority.as_str().as_bytes());
    feed(&mut digest, authority);
    feed(&mut digest, request.uri().path().as_bytes());
    // `/a?` and `/a` are two resources.
    feed(&mut digest, request.uri().query().map_or(String::new(), |query| format!("?{query}")).as_bytes());
    // The upstream gets this spelling, and may know it as another resource.
    if let Some(ReceivedPath(path)) = request.extensions().get() {
        feed(&mut digest, path.as_bytes());
    }
    if let Some(received) = request.extensions().get::<ReceivedTarget>() {
        feed(&mut digest, received.target.as_ref().map_or("", |target| target.as_str()).as_bytes());
        feed(&mut digest, received.host.as_ref().map_or(&b""[..], |host| host.as_bytes()));
    }
    digest.finalize().into()
}

/// Returns the key of the response to a request for `resource` with the fields `headers`. The fields `vary` and
/// [`ALWAYS_VARY`] distinguish responses.
pub(super) fn response(resource: &Key, headers: &HeaderMap, vary: &[HeaderName]) -> Key {
    let mut digest = Sha256::new();
    digest.update(resource);
    for name in ALWAYS_VARY.iter().chain(vary) {
        feed(&mut digest, name.as_str().as_bytes());
        let values = headers.get_all(name);
        digest.update((values.iter().count() as u64).to_le_bytes());
        values.iter().for_each(|value| feed(&mut digest, value.as_bytes()));
    }
    feed_forwarded(&mut digest, headers);
    digest.finalize().into()
}

/// Adds the elements of `Forwarded` (RFC 7239) without `for` and `by`, which name nodes instead of the origin.
fn feed_forwarded(digest: &mut Sha256, headers: &HeaderMap) {
    for element in headers.get_all(FORWARDED).iter().flat_map(|line| split(line.as_bytes(), b",")) {
        let is_node = |pair: &&[u8]| {
            let (name, _) = name_and_argument(pair);
            [b"for", &b"by"[..]].iter().any(|node| name.eq_ignore_ascii_case(node))
        };
        let pairs: Vec<&[u8]> = split(element, b";").filter(|pair| !is_node(pair)).collect();
        feed(digest, &pairs.join(&b';'));
    }
}

/// Adds `text` after its length, so that different sequences of texts have different digests.
fn feed(digest: &mut Sha256, text: &[u8]) {
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn key(uri: &str, headers: &[(&str, &str)], vary: &[&'static str]) -> Key {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let vary: Vec<_> = vary.iter().copied().map(HeaderName::from_static).collect();
        let request = request.body(()).unwrap();
        response(&resource(&request, "route"), request.headers(), &vary)
    }

    #[test]
    fn different_requests_have_different_keys() {
        let keys = [
            key("/a", &[], &[]),
            key("/a?", &[], &[]),
            key("/a?b", &[], &[]),
            key("/ab", &[], &[]),
            key("/a", &[("host", "x")], &[]),
            key("/a", &[("authorization", "x")], &[]),
            key("/a", &[("cookie", "x")], &[]),
            key("/a", &[("cookie", "x"), ("cookie", "y")], &[]),
            key("/a", &[("cookie", "xy")], &[]),
            key("/a", &[("range", "bytes=0-1")], &[]),
            key("/a", &[("x-forwarded-proto", "https")], &[]),
            key("/a", &[("x-forwarded-proto", "http")], &[]),
            key("/a", &[("x-forwarded-host", "x")], &[]),
            key("/a", &[("x-forwarded-port", "x")], &[]),
            key("/a", &[("x-forwarded-prefix", "x")], &[]),
            key("/a", &[("forwarded", "proto=https;for=192.0.2.1")], &[]),
            key("/a", &[("forwarded", "proto=http;for=192.0.2.1")], &[]),
            key("/a", &[("forwarded", "host=\"a\"")], &[]),
            key("/a", &[("accept", "x")], &["accept"]),
            key("/a", &[("accept", "y")], &["accept"]),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(keys.iter().skip(at + 1).all(|other| one != other), "{at}");
        }
        assert_eq!(key("/a", &[("accept", "x")], &[]), keys[0]);
        // Clients of one origin share responses.
        let clients = ["for=192.0.2.1;proto=https", "FOR=\"[2001:db8::1]:5\"; proto=https;by=\"10.0.0.1:80\""];
        let [one, other] = clients.map(|client| key("/a", &[("forwarded", client), ("x-forwarded-for", client)], &[]));
        assert_eq!(one, other);
        let mut other = Request::builder().uri("/a").body(()).unwrap();
        assert_ne!(response(&resource(&other, "other route"), other.headers(), &[]), keys[0]);
        // A path that filters have changed is another resource for each original.
        let received = |uri: &'static str| ReceivedTarget { target: Some(uri.parse().unwrap()), host: None };
        let [one, two] = ["/x/a", "/y/a"].map(|uri| {
            other.extensions_mut().insert(received(uri));
            resource(&other, "route")
        });
        assert_ne!(one, two);
        // So is a path that is forwarded in another spelling.
        let normal = resource(&other, "route");
        other.extensions_mut().insert(ReceivedPath("//a".into()));
        assert_ne!(resource(&other, "route"), normal);
    }
}
