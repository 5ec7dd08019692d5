//! Small checks of header fields.

use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};

/// Methods of RFC 9110 and RFC 5789.
pub const STANDARD_METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];

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

/// Returns true for the fields by which proxies tell of a client's certificate (RFC 9440).
#[must_use]
pub fn is_client_cert(name: &HeaderName) -> bool {
    matches!(name.as_str(), "client-cert" | "client-cert-chain")
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
