//! Bytes of a request line that hyper refuses and browsers and other proxies pass on.
//!
//! hyper's parser of targets takes no `"`, `<`, `>` and no bytes that are not UTF-8. In a query they are percent-encoded
//! before hyper reads the line (RFC 3986 §2.1), so that the request has one meaning here and upstream.

use std::io::Write as _;

use memchr::memchr;

/// Request line of the head that is being read. A head may arrive in several reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestLine {
    progress: Progress,
    /// True if the bytes that were read last certainly end a message.
    at_boundary: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// No byte of it was read.
    Start,
    /// In the method, or in the path.
    BeforeQuery,
    Query,
    /// It was read, or the bytes may belong to another part of a message.
    #[default]
    Complete,
}

/// End of a head, and of a chunked body.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

// === impl RequestLine ===

impl RequestLine {
    /// Returns the line of a connection from which no byte was read.
    pub(super) fn first() -> Self {
        Self { progress: Progress::Start, at_boundary: false }
    }

    /// Reads the next bytes of a connection, which `was_idle` before them. Returns them if some of them had to be encoded.
    ///
    /// Bytes behind an idle connection begin a head, unless hyper has a part of the head already: the bytes before them
    /// then do not end a message. Changing bytes of a body or a field would change the message, so a line is read only
    /// where it certainly begins.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], was_idle: bool) -> Option<Vec<u8>> {
        if was_idle && self.at_boundary {
            self.progress = Progress::Start;
        }
        self.at_boundary = bytes.ends_with(END_OF_HEAD);
        if self.progress == Progress::Start && is_plain(bytes) {
            self.progress = Progress::Complete;
        }
        if self.progress == Progress::Complete { None } else { self.read_each(bytes) }
    }

    #[cold]
    fn read_each(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut encoded, mut rest) = (Vec::new(), bytes);
        for (at, byte) in bytes.iter().enumerate() {
            self.progress = match (self.progress, byte) {
                // hyper skips empty lines in front of a request (RFC 9112 §2.2).
                (Progress::Start, b'\r' | b'\n') => Progress::Start,
                (_, b'\r' | b'\n') | (Progress::Query, b' ') => Progress::Complete,
                (Progress::Start | Progress::BeforeQuery, b'?') => Progress::Query,
                (Progress::Start, _) => Progress::BeforeQuery,
                (state, _) => state,
            };
            if self.progress == Progress::Complete {
                break;
            }
            if self.progress == Progress::Query && needs_encoding(*byte) {
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
        let mut line = RequestLine::first();
        head.chunks(size).flat_map(|piece| line.read(piece, false).unwrap_or_else(|| piece.to_vec())).collect()
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
    fn a_line_is_read_only_where_it_certainly_begins() {
        const LINE: &[u8] = b"GET /?\" HTTP/1.1\r\n\r\n";
        for (before, was_idle, is_read) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], true, true),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", true, true),
            // In a body, in a tunnel, and behind a part of a head that hyper has.
            (b"GET / HTTP/1.1\r\n\r\n", false, false),
            (b"GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 24\r\n", true, false),
            (b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\na", true, false),
        ] {
            let mut line = RequestLine::first();
            assert_eq!(line.read(before, false), None);
            assert_eq!(line.read(LINE, was_idle).is_some(), is_read, "{}", before.escape_ascii());
        }
        let mut line = RequestLine::first();
        assert_eq!(line.read(b"GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 24\r\n", false), None);
        assert_eq!(line.read(b"\r\n", true), None);
        assert_eq!(line.read(b"{\"q\":\"?\",\"x\":\"y\"}", false), None);
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
