//! Interim responses as bytes of HTTP/1.1.

use bytes::{Bytes, BytesMut};
use http::Response;

/// Returns `unwritten` bytes, followed by the heads of `responses` as bytes of HTTP/1.1: hyper has no interface for them. A
/// field is valid by its type: it has no line breaks.
pub(super) fn add_interim_heads(unwritten: &Bytes, responses: &[Response<()>]) -> Bytes {
    let mut bytes = BytesMut::from(&**unwritten);
    for response in responses {
        let status = response.status();
        let reason = status.canonical_reason().unwrap_or_default();
        for text in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
            bytes.extend_from_slice(text.as_bytes());
        }
        for (name, value) in response.headers() {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_follow_each_other_and_the_part_that_was_not_written() {
        let hint = Response::builder().status(103).header("link", "</a>").header("link", "</b>").body(()).unwrap();
        let unknown = Response::builder().status(150).body(()).unwrap();
        let first = add_interim_heads(&Bytes::new(), &[hint]);
        let heads = add_interim_heads(&first.slice("HTTP/1.1 ".len()..), &[unknown]);
        let expected = "103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\nHTTP/1.1 150 \r\n\r\n";
        assert_eq!(std::str::from_utf8(&heads).unwrap(), expected);
    }
}
