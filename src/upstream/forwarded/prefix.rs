//! `X-Forwarded-Prefix`: what the route's filters took off the front of the path.

use http::Request;

use crate::upstream::forwarded::set::{X_FORWARDED_PREFIX, say};
use tollgate_config::Tell;

/// The path with which a trusted peer's request came; a request extension.
#[derive(Clone, Debug)]
pub struct OriginalPath(pub Box<str>);

/// NameLookup the prefix of `request`'s original path that its path has no more: behind the route's filters, before it is
/// sent. Paths are compared decoded, as by Spring, and without a slash at their end; what no longer ends the same has no prefix.
#[must_use]
pub fn set_forwarded_prefix<B>(mut request: Request<B>, how: Tell) -> Request<B> {
    if let Some(OriginalPath(original)) = request.extensions_mut().remove::<OriginalPath>()
        && let Some(prefix) = prefix(&original, request.uri().path())
    {
        say(request.headers_mut(), X_FORWARDED_PREFIX, &prefix, how);
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

fn decoded(path: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high << 4 | low);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_off_the_front_is_the_prefix() {
        for (original, path, expected) in [
            ("/api/x", "/x", Some("/api")),
            ("/api/v1/x/", "/x", Some("/api/v1")),
            ("/api", "/", Some("/api")),
            ("/a%20b/x", "/x", Some("/a b")),
            ("/a/%78", "/x", Some("/a")),
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
