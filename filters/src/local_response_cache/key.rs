//! Cache keys: digests, so that no credentials are stored in memory.

use http::Request;
use http::header::{AUTHORIZATION, COOKIE, FORWARDED, HOST, HeaderMap, HeaderName, IF_RANGE, RANGE};
use sha2::{Digest, Sha256};

use super::cache_control::{name_and_argument, split};
use super::reuse::ReceivedTarget;
use crate::context::ReceivedPath;

/// The key of a cache entry.
pub(super) type Key = [u8; 32];

/// Request fields that always distinguish responses: a response is only for requests with the same credentials, under
/// the same origin as trusted proxies report it.
const ALWAYS_VARY: [HeaderName; 7] = [
    AUTHORIZATION,
    COOKIE,
    HeaderName::from_static("client-cert"),
    RANGE,
    IF_RANGE,
    HeaderName::from_static("front-end-https"),
    HeaderName::from_static("x-url-scheme"),
];

/// Start of further such fields: `X-Forwarded-Proto`, `-Host`, `-Port`, `-Prefix`, `-Ssl`, `-Scheme` …
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// Ends of the names of those that name nodes instead of the origin.
const NODES: [&str; 4] = ["for", "by", "client-ip", "client-port"];

/// Returns the key of the resource of `request` in `scope`. All spellings of its path have one key, so that a change
/// invalidates the responses to all of them.
pub(super) fn resource<B>(request: &Request<B>, scope: &str) -> Key {
    let mut digest = Sha256::new();
    feed(&mut digest, scope.as_bytes());
    let host = request.headers().get(HOST).map_or(&b""[..], |host| host.as_bytes());
    let authority = request.uri().authority().map_or(host, |authority| authority.as_str().as_bytes());
    feed(&mut digest, authority);
    feed(&mut digest, request.uri().path().as_bytes());
    // `/a?` and `/a` are two resources.
    feed(&mut digest, request.uri().query().map_or(String::new(), |query| format!("?{query}")).as_bytes());
    if let Some(received) = request.extensions().get::<ReceivedTarget>() {
        feed(&mut digest, received.target.as_ref().map_or("", |target| target.as_str()).as_bytes());
        feed(&mut digest, received.host.as_ref().map_or(&b""[..], |host| host.as_bytes()));
    }
    digest.finalize().into()
}

/// Returns the key of the response to a request for `resource`, in the spelling `path`, with the fields `headers`. The
/// fields `vary`, [`ALWAYS_VARY`] and [`FORWARDED_PREFIX`] distinguish responses. The upstream gets the spelling, and may
/// know it as another resource.
pub(super) fn response(resource: &Key, path: Option<&ReceivedPath>, headers: &HeaderMap, vary: &[HeaderName]) -> Key {
    let mut digest = Sha256::new();
    digest.update(resource);
    feed(&mut digest, path.map_or("", |ReceivedPath(path)| path).as_bytes());
    ALWAYS_VARY.iter().chain(vary).for_each(|name| feed_field(&mut digest, headers, name));
    let mut origin: Vec<&HeaderName> = headers.keys().filter(|name| names_origin(name)).collect();
    origin.sort_unstable_by_key(|name| name.as_str());
    digest.update((origin.len() as u64).to_le_bytes());
    origin.into_iter().for_each(|name| feed_field(&mut digest, headers, name));
    feed_forwarded(&mut digest, headers);
    digest.finalize().into()
}

/// Returns true for a field `X-Forwarded-…` that is not about nodes.
fn names_origin(name: &HeaderName) -> bool {
    name.as_str().strip_prefix(FORWARDED_PREFIX).is_some_and(|end| !NODES.contains(&end))
}

/// Adds the name and all values of a field.
fn feed_field(digest: &mut Sha256, headers: &HeaderMap, name: &HeaderName) {
    feed(digest, name.as_str().as_bytes());
    let values = headers.get_all(name);
    digest.update((values.iter().count() as u64).to_le_bytes());
    values.iter().for_each(|value| feed(digest, value.as_bytes()));
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
        response(&resource(&request, "route"), None, request.headers(), &vary)
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
            key("/a", &[("client-cert", ":x:")], &[]),
            key("/a", &[("x-forwarded-client-cert", "Hash=x")], &[]),
            key("/a", &[("cookie", "x"), ("cookie", "y")], &[]),
            key("/a", &[("cookie", "xy")], &[]),
            key("/a", &[("range", "bytes=0-1")], &[]),
            key("/a", &[("x-forwarded-proto", "https")], &[]),
            key("/a", &[("x-forwarded-proto", "http")], &[]),
            key("/a", &[("x-forwarded-host", "x")], &[]),
            key("/a", &[("x-forwarded-port", "x")], &[]),
            key("/a", &[("x-forwarded-prefix", "x")], &[]),
            key("/a", &[("x-forwarded-ssl", "on")], &[]),
            key("/a", &[("x-forwarded-ssl", "off")], &[]),
            key("/a", &[("x-forwarded-scheme", "x")], &[]),
            key("/a", &[("x-forwarded-other", "x")], &[]),
            key("/a", &[("front-end-https", "on")], &[]),
            key("/a", &[("x-url-scheme", "https")], &[]),
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
        // The order of different fields has no meaning.
        let mut fields = [("x-forwarded-ssl", "on"), ("x-forwarded-port", "443")];
        let one = key("/a", &fields, &[]);
        fields.reverse();
        assert_eq!(one, key("/a", &fields, &[]));
        // Clients of one origin share responses.
        let clients = ["for=192.0.2.1;proto=https", "FOR=\"[2001:db8::1]:5\"; proto=https;by=\"10.0.0.1:80\""];
        let [one, other] = clients.map(|client| {
            let names = ["forwarded", "x-forwarded-for", "x-forwarded-by", "x-forwarded-client-ip"];
            key("/a", &names.map(|name| (name, client)), &[])
        });
        assert_eq!(one, other);
        let mut other = Request::builder().uri("/a").body(()).unwrap();
        assert_ne!(response(&resource(&other, "other route"), None, other.headers(), &[]), keys[0]);
        // A path that filters have changed is another resource for each original.
        let received = |uri: &'static str| ReceivedTarget { target: Some(uri.parse().unwrap()), host: None };
        let [one, two] = ["/x/a", "/y/a"].map(|uri| {
            other.extensions_mut().insert(received(uri));
            resource(&other, "route")
        });
        assert_ne!(one, two);
        // A path that is forwarded in another spelling is the same resource with other responses.
        let normal = resource(&other, "route");
        let spelling = ReceivedPath("//a".into());
        other.extensions_mut().insert(spelling.clone());
        assert_eq!(resource(&other, "route"), normal);
        let [one, two] = [None, Some(&spelling)].map(|path| response(&normal, path, other.headers(), &[]));
        assert_ne!(one, two);
    }
}
