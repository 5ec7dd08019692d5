//! Headers of the PROXY protocol: one reading, whatever pieces they arrive in.
//!
//! Input: the first bytes of a connection.

use tollgate_proxy_protocol::{Header, MAX_BYTES, parse};

/// Longest header of version 1.
const MAX_LINE: usize = 107;

pub fn run(bytes: &[u8]) {
    let whole = parse(bytes);
    match whole {
        Ok(Some(header)) => accepted(header, bytes),
        Ok(None) => assert!(bytes.len() < MAX_BYTES, "a complete header is waited for"),
        Err(_) => {}
    }
    for end in 0..bytes.len() {
        match parse(&bytes[..end]) {
            Ok(None) => {}
            // More bytes change nothing.
            early => {
                assert_eq!(early, whole, "after {end} bytes");
                return;
            }
        }
    }
}

fn accepted(header: Header<'_>, bytes: &[u8]) {
    let is_line = bytes.starts_with(b"PROXY ");
    assert!(header.length <= if is_line { MAX_LINE } else { MAX_BYTES } && header.length <= bytes.len());
    assert_eq!(parse(&bytes[..header.length]), Ok(Some(header)), "the bytes behind it matter");
    assert_eq!(parse(&bytes[..header.length - 1]), Ok(None));
    assert!(header.source.is_none_or(|source| source.ip() == source.ip().to_canonical()));
    assert!(header.unique_id.is_none_or(|id| id.len() <= 128));
}
