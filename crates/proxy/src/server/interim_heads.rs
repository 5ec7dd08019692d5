//! Interim responses as bytes of HTTP/1.1.

use bytes::{Buf, Bytes, BytesMut};
use http::Response;

/// Heads of interim responses that are being written to an HTTP/1.1 client. hyper has no interface for them.
#[derive(Debug, Default)]
pub(super) struct InterimHeads(Bytes);

impl InterimHeads {
    /// Returns true if all bytes have been written.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes to write.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Notes that `count` bytes have been written.
    pub(super) fn advance(&mut self, count: usize) {
        self.0.advance(count);
    }

    /// Adds heads. A field is valid by its type: it has no line breaks.
    pub(super) fn encode(&mut self, responses: &[Response<()>]) {
        let mut bytes = BytesMut::from(&*self.0);
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
        self.0 = bytes.freeze();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_follow_each_other_and_the_part_that_was_not_written() {
        let hint = Response::builder().status(103).header("link", "</a>").header("link", "</b>").body(()).unwrap();
        let unknown = Response::builder().status(150).body(()).unwrap();
        let mut heads = InterimHeads::default();
        assert!(heads.is_empty());
        heads.encode(&[hint]);
        heads.advance("HTTP/1.1 ".len());
        heads.encode(&[unknown]);
        let expected = "103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\nHTTP/1.1 150 \r\n\r\n";
        assert_eq!(std::str::from_utf8(heads.bytes()).unwrap(), expected);
    }
}
