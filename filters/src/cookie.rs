//! Cookies of a request (RFC 6265).

use http::HeaderMap;
use http::header::COOKIE;

/// Returns the value of the first cookie `name`, without the double quotes that may enclose it (RFC 6265 §4.2.1).
pub(crate) fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|b| *b == b';'));
    let value =
        pairs.map(<[u8]>::trim_ascii).find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value))
}
