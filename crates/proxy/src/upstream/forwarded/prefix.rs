//! `X-Forwarded-Prefix`: the path prefix that the route's filters removed.

use http::Request;
use percent_encoding::percent_decode_str;

use crate::upstream::forwarded::set::{X_FORWARDED_PREFIX, set_field};
use tollgate_config::HeaderAction;

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
        set_field(request.headers_mut(), X_FORWARDED_PREFIX, &prefix, action);
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
    use super::*;

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
