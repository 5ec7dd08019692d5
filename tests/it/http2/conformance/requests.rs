//! Section 8: requests.

use super::*;

/// Section 8: requests.
pub(super) fn requests() -> Vec<Case> {
    let malformed = || Stream(&[PROTOCOL_ERROR]);
    let mut cases = vec![
        case("8.1", "a body", vec![(HEADERS, EH, 1, post(&[])), (DATA, ES, 1, b"body".to_vec())], Status(200)),
        case(
            "8.1",
            "trailers",
            vec![
                (HEADERS, EH, 1, post(&[])),
                (DATA, 0, 1, b"a".to_vec()),
                (HEADERS, ES | EH, 1, block(&[("x-t", "1")])),
            ],
            Status(200),
        ),
        case(
            "8.1",
            "a second HEADERS without END_STREAM",
            vec![(HEADERS, EH, 1, post(&[])), (HEADERS, EH, 1, block(&[("x-t", "1")]))],
            malformed(),
        ),
        case(
            "8.1.1",
            "a length above the body",
            vec![(HEADERS, EH, 1, post(&[("content-length", "9")])), (DATA, ES, 1, b"a".to_vec())],
            malformed(),
        ),
        case(
            "8.1.1",
            "a length below the body",
            vec![(HEADERS, EH, 1, post(&[("content-length", "1")])), (DATA, ES, 1, b"abc".to_vec())],
            malformed(),
        ),
        case(
            "8.1.1",
            "a length that is repeated and differs",
            vec![
                (HEADERS, EH, 1, post(&[("content-length", "1"), ("content-length", "2")])),
                (DATA, ES, 1, b"a".to_vec()),
            ],
            malformed(),
        ),
        case("8.2.1", "an upper-case name", with(&[("X-Upper", "1")]), malformed()),
        // An HTTP/1.1 upstream would remove the whitespace, and so read another value than the gateway.
        case("8.2.1", "a value that begins with a space", with(&[("x", " a")]), Status(400)),
        case("8.2.1", "a value that ends with a tab", with(&[("x", "a\t")]), Status(400)),
        case("8.2.2", "connection", with(&[("connection", "close")]), malformed()),
        case("8.2.2", "transfer-encoding", with(&[("transfer-encoding", "chunked")]), malformed()),
        case("8.2.2", "te other than trailers", with(&[("te", "gzip")]), malformed()),
        case("8.2.2", "te: trailers", with(&[("te", "trailers")]), Status(200)),
        case("8.3", "an unknown pseudo-header field", with(&[(":x", "1")]), malformed()),
        case("8.3", "a pseudo-header field of responses", with(&[(":status", "200")]), malformed()),
        case("8.3", "a pseudo-header field behind others", with(&[("x", "1"), (":path", "/y")]), malformed()),
        case("8.3", "a repeated pseudo-header field", with(&[(":path", "/y")]), malformed()),
        case("6.5.2", "a head above the limit", too_large(100_000), Status(431)),
        case("6.5.2", "a head of 240 KB", too_large(240_000), Status(431)),
        case("8.1", "Expect: 100-continue", vec![(HEADERS, EH, 1, post(&[("expect", "100-continue")]))], Status(100)),
    ];
    for missing in [":method", ":scheme", ":path"] {
        let left: Vec<_> = fields("GET").into_iter().filter(|(name, _)| *name != missing).collect();
        cases.push(case("8.3.1", missing, vec![(HEADERS, ES | EH, 1, block(&left))], malformed()));
    }
    cases
}

/// A head of about `length` bytes in one header block.
fn too_large(length: usize) -> Frames {
    let field = block(&[("x-filler", &"y".repeat(100))]);
    let whole = [get(), field.repeat(length / 140)].concat();
    let pieces: Vec<&[u8]> = whole.chunks(16_000).collect();
    let last = pieces.len() - 1;
    let frame = |(n, piece): (usize, &&[u8])| {
        let flags = if n == last { EH } else { 0 };
        if n == 0 { (HEADERS, ES | flags, 1, piece.to_vec()) } else { (CONTINUATION, flags, 1, piece.to_vec()) }
    };
    pieces.iter().enumerate().map(frame).collect()
}
