//! Percent-encoding (RFC 3986 §2.1) for the parts of a URI that filters read and write.

#[cfg(feature = "edit")]
pub(crate) use self::encode::{encode_non_ascii, encode_path, encode_query, encode_strictly};
use percent_encoding::percent_decode;

/// Decodes `text`. A `%` without two hex digits after it stays; `plus_is_space` also reads `+` as a space, as query
/// strings do.
pub(crate) fn decode(text: &[u8], plus_is_space: bool) -> impl Iterator<Item = u8> + '_ {
    let parts = text.split(move |byte| plus_is_space && *byte == b'+').enumerate();
    parts.flat_map(|(index, part)| (index > 0).then_some(b' ').into_iter().chain(percent_decode(part)))
}

#[cfg(feature = "edit")]
mod encode {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

    /// Every byte that is not unreserved (RFC 3986 §2.3).
    const NOT_UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

    /// Every byte that a path cannot hold (RFC 3986 §3.3), percent signs excepted.
    const NOT_IN_PATH: AsciiSet = NOT_UNRESERVED
        .remove(b'!')
        .remove(b'$')
        .remove(b'&')
        .remove(b'\'')
        .remove(b'(')
        .remove(b')')
        .remove(b'*')
        .remove(b'+')
        .remove(b',')
        .remove(b';')
        .remove(b'=')
        .remove(b':')
        .remove(b'@')
        .remove(b'/')
        .remove(b'%');

    /// Every byte that a query cannot hold (RFC 3986 §3.4), percent signs excepted.
    const NOT_IN_QUERY: AsciiSet = NOT_IN_PATH.remove(b'?');

    /// Appends `text` to `out`, with every byte encoded that a path cannot hold. Escapes stay: the text may be encoded
    /// already.
    pub(crate) fn encode_path(text: &str, out: &mut Vec<u8>) {
        for (index, part) in text.split('%').enumerate() {
            let is_escape = part.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            match (index, is_escape) {
                (0, _) => {}
                (_, true) => out.push(b'%'),
                (_, false) => out.extend_from_slice(b"%25"),
            }
            percent_encode(part.as_bytes(), &NOT_IN_PATH).for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        }
    }

    /// Appends `text` to `out`, with every byte encoded that is not ASCII.
    pub(crate) fn encode_non_ascii(text: &[u8], out: &mut Vec<u8>) {
        percent_encode(text, &AsciiSet::EMPTY).for_each(|piece| out.extend_from_slice(piece.as_bytes()));
    }

    /// Appends `text` to `out`, with every byte encoded that a query cannot hold. Percent signs stay.
    pub(crate) fn encode_query(text: &str, out: &mut Vec<u8>) {
        percent_encode(text.as_bytes(), &NOT_IN_QUERY).for_each(|piece| out.extend_from_slice(piece.as_bytes()));
    }

    /// Appends `bytes` to `out`, with every byte encoded that is not unreserved, so that none of them is a delimiter.
    pub(crate) fn encode_strictly(bytes: impl IntoIterator<Item = u8>, out: &mut Vec<u8>) {
        for byte in bytes {
            percent_encode(&[byte], &NOT_UNRESERVED).for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn malformed_escapes_stay_as_they_are() {
        let decoded = |text: &str, plus| String::from_utf8(decode(text.as_bytes(), plus).collect()).unwrap();
        assert_eq!(decoded("a%20b+c", true), "a b c");
        assert_eq!(decoded("a%20b+c", false), "a b+c");
        assert_eq!(decoded("100%", true), "100%");
        assert_eq!(decoded("%zz%4", true), "%zz%4");
        assert_eq!(decoded("%2B+%2+0", true), "+ %2 0");
        assert_eq!(decoded("%C3%A9", true), "é");
    }

    #[cfg(feature = "edit")]
    #[test]
    fn bytes_that_a_uri_part_cannot_hold_are_encoded_and_escapes_stay() {
        let mut out = Vec::new();
        encode_path("/a b/é?%2F%/100%2%%", &mut out);
        assert_eq!(out, b"/a%20b/%C3%A9%3F%2F%25/100%252%25%25");
        out.clear();
        encode_query("a b=\"/?&é#%2F", &mut out);
        assert_eq!(out, b"a%20b=%22/?&%C3%A9%23%2F");
        out.clear();
        encode_strictly(*b"a-b_~. &=+/%", &mut out);
        assert_eq!(out, b"a-b_~.%20%26%3D%2B%2F%25");
        out.clear();
        encode_non_ascii(b"http://a/ b?\"\xe9%2F", &mut out);
        assert_eq!(out, b"http://a/ b?\"%E9%2F");
    }
}
