//! `Cookie`: the pairs of the `Cookie` field (RFC 6265, section 4.2).

use http::{HeaderMap, header};

use super::header::text;
use super::regexp::Regexp;

/// Whether a cookie of this name has a value that matches. Quotes around a value are no part of it.
pub(super) fn matches(headers: &HeaderMap, name: &str, regexp: &Regexp) -> bool {
    // HTTP/2 may send one field a cookie (RFC 9113, section 8.2.3).
    headers.get_all(header::COOKIE).iter().any(|field| {
        text(field).split(';').filter_map(|pair| pair.split_once('=')).any(|(key, value)| {
            let value = value.trim();
            let inside = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            key.trim() == name && regexp.matches(inside.unwrap_or(value))
        })
    })
}
