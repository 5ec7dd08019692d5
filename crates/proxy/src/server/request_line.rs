//! Bytes of a request line that hyper refuses and browsers and other proxies pass on.
//!
//! hyper's parser of targets takes no `"`, `<`, `>` and no bytes that are not UTF-8. In a query they are percent-encoded
//! before hyper reads the line (RFC 3986 §2.1), so that the request has one meaning here and upstream.

use std::io::Write as _;

use memchr::memchr;

/// Progress through the request line of one head, which may arrive in several reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestLine {
    /// No byte of it was read.
    Start,
    /// In the method, or in the path.
    BeforeQuery,
    Query,
    /// It was read.
    Complete,
}

// === impl RequestLine ===

impl RequestLine {
    /// Reads the next bytes of a head. Returns them if some of them had to be encoded.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if *self == Self::Start && is_plain(bytes) {
            *self = Self::Complete;
            return None;
        }
        self.read_each(bytes)
    }

    #[cold]
    fn read_each(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut encoded, mut rest) = (Vec::new(), bytes);
        for (at, byte) in bytes.iter().enumerate() {
            *self = match (*self, byte) {
                // hyper skips empty lines in front of a request (RFC 9112 §2.2).
                (Self::Start, b'\r' | b'\n') => Self::Start,
                (_, b'\r' | b'\n') | (Self::Query, b' ') => Self::Complete,
                (Self::Start | Self::BeforeQuery, b'?') => Self::Query,
                (Self::Start, _) => Self::BeforeQuery,
                (state, _) => state,
            };
            if *self == Self::Complete {
                break;
            }
            if *self == Self::Query && needs_encoding(*byte) {
                encoded.extend_from_slice(&rest[..at + rest.len() - bytes.len()]);
                rest = &bytes[at + 1..];
                // Writing to a vector cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
        if encoded.is_empty() {
            return None;
        }
        encoded.extend_from_slice(rest);
        Some(encoded)
    }
}

const fn needs_encoding(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | 0x80..)
}

/// Returns true if `bytes` certainly have a whole request line that needs no encoding.
fn is_plain(bytes: &[u8]) -> bool {
    let Some(end) = memchr(b'\n', bytes) else { return false };
    let line = &bytes[..end];
    // Empty lines may stand in front of a request.
    line.len() > 1 && memchr(b'?', line).is_none_or(|query| !line[query..].iter().copied().any(needs_encoding))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that hyper gets of a head that arrives in pieces of `size` bytes.
    fn passed(head: &[u8], size: usize) -> Vec<u8> {
        let mut line = RequestLine::Start;
        head.chunks(size).flat_map(|piece| line.read(piece).unwrap_or_else(|| piece.to_vec())).collect()
    }

    #[test]
    fn bytes_of_a_query_are_encoded_and_no_others() {
        let fields = b" HTTP/1.1\r\nHost: a\r\nX: \"<>\xe9?\"\r\n\r\n\"?<body>";
        for (line, expected) in [
            (&b"GET /a"[..], &b"GET /a"[..]),
            (b"GET /a?b=%22c&d", b"GET /a?b=%22c&d"),
            (b"GET /a?q=\"x\"<y>&z=caf\xe9", b"GET /a?q=%22x%22%3Cy%3E&z=caf%E9"),
            (b"GET /a?\xc3\xa9", b"GET /a?%C3%A9"),
            (b"GET /a??\"?<", b"GET /a??%22?%3C"),
            (b"GET http://a?\"", b"GET http://a?%22"),
            (b"\r\n\r\nGET /a?\"", b"\r\n\r\nGET /a?%22"),
            // The path is refused as it is.
            (b"GET /\"<>\xe9?\"", b"GET /\"<>\xe9?%22"),
            (b"GET /a \"?\"", b"GET /a \"?%22"),
        ] {
            let (head, expected) = ([line, fields].concat(), [expected, fields].concat());
            for size in 1..=head.len() {
                let passed = passed(&head, size);
                assert_eq!(passed, expected, "{} in pieces of {size}", passed.escape_ascii());
            }
        }
    }

    #[test]
    fn a_plain_line_is_recognized_at_once() {
        for head in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /orders/17?full=1 HTTP/1.1\r\nHost: a.example\r\nX: \"\"\r\n\r\n",
        ] {
            assert!(is_plain(head.as_bytes()), "{head}");
        }
        assert!(!is_plain(b"GET /?\" HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(!is_plain(b"\r\nGET /?\" HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
}
