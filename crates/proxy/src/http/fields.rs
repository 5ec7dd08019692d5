//! Small checks of header fields.

use http::Version;
use http::header::{CONNECTION, FORWARDED, HeaderMap, HeaderName, HeaderValue, UPGRADE};

/// Bytes by which the limit that `h2` gets exceeds the gateway's. `h2` drops fields of trailers beyond its limit and
/// completes the message. With this difference the gateway sees that trailers are too large.
pub const DROPPED_FIELD: usize = 64 * 1024;

/// Returns the size of a list of fields in bytes (RFC 9113 §6.5.2): 32 are added for each field.
#[must_use]
pub fn list_size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

/// Returns true if the field name contains an underscore.
///
/// Many backends read `x_user` as `x-user`. With such a field a client could get around a proxy that removes or sets
/// the hyphenated name.
#[must_use]
pub fn has_underscore(name: &HeaderName) -> bool {
    name.as_str().as_bytes().contains(&b'_')
}

/// Returns true for fields that proxies add: `Forwarded` and `X-Forwarded-*`.
#[must_use]
pub fn is_forwarded(name: &HeaderName) -> bool {
    name == FORWARDED || name.as_str().starts_with("x-forwarded-")
}

/// Removes the fields for whose names `is_removed` is true.
pub fn remove_fields(headers: &mut HeaderMap, is_removed: impl Fn(&HeaderName) -> bool) {
    let removed: Vec<HeaderName> = headers.keys().filter(|name| is_removed(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// Returns true if a comma-separated list contains `token`, ignoring case and parameters.
#[must_use]
pub fn has_token(list: &HeaderValue, token: &[u8]) -> bool {
    list.as_bytes().split(|byte| *byte == b',').any(|item| {
        let item = item.split(|byte| *byte == b';').next().unwrap_or_default();
        item.trim_ascii().eq_ignore_ascii_case(token)
    })
}

/// Returns the protocol that an HTTP/1.1 request asks to switch to, if the gateway tunnels it.
///
/// Every protocol is tunnelled except `h2c`, which would carry requests past all filters.
#[must_use]
pub fn requested_upgrade(version: Version, headers: &HeaderMap) -> Option<HeaderValue> {
    if version != Version::HTTP_11 {
        return None;
    }
    let protocol = headers.get(UPGRADE)?;
    let is_requested = headers.get_all(CONNECTION).iter().any(|value| has_token(value, b"upgrade"));
    let is_tunnelled = !has_token(protocol, b"h2c") && !has_token(protocol, b"h2");
    (is_requested && is_tunnelled).then(|| protocol.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn websocket_is_tunnelled_and_h2c_never() {
        let headers = |connection: &'static str, protocol: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, HeaderValue::from_static(connection));
            headers.insert(UPGRADE, protocol.parse().unwrap());
            headers
        };
        let upgrade = |protocol| headers("keep-alive, Upgrade", protocol);
        assert!(requested_upgrade(Version::HTTP_11, &upgrade("websocket")).is_some());
        assert!(requested_upgrade(Version::HTTP_11, &upgrade("h2c")).is_none());
        assert!(requested_upgrade(Version::HTTP_11, &upgrade("websocket, h2c")).is_none());
        assert!(requested_upgrade(Version::HTTP_10, &upgrade("websocket")).is_none());
        let mut without_connection = upgrade("websocket");
        without_connection.remove(CONNECTION);
        assert!(requested_upgrade(Version::HTTP_11, &without_connection).is_none());
    }
}
