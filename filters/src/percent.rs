//! Percent-encoding (RFC 3986 §2.1), as far as filters need it.

/// The bytes that `text` stands for. A `%` without two hex digits behind it stands for itself; `plus_is_space` also
/// reads `+` as a space, as query strings do.
pub(crate) fn decode(text: &[u8], plus_is_space: bool) -> impl Iterator<Item = u8> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&first, tail) = rest.split_first()?;
        if first == b'%'
            && let [high, low, after @ ..] = tail
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            rest = after;
            return Some(high << 4 | low);
        }
        rest = tail;
        Some(if plus_is_space && first == b'+' { b' ' } else { first })
    })
}

/// Appends `text` to `out` with every byte encoded that may not stand in a URI path (RFC 3986 §3.3). Percent signs
/// stay: the text may be encoded already.
pub(crate) fn encode_path(text: &str, out: &mut Vec<u8>) {
    encode_unless(|byte| b"-._~!$&'()*+,;=:@/%".contains(&byte), text.bytes(), out);
}

/// Appends `text` to `out` with every byte encoded that may not stand in a query (RFC 3986 §3.4). Percent signs stay.
pub(crate) fn encode_query(text: &str, out: &mut Vec<u8>) {
    encode_unless(|byte| b"-._~!$&'()*+,;=:@/?%".contains(&byte), text.bytes(), out);
}

/// Appends `bytes` to `out` with every byte encoded that is not unreserved (RFC 3986 §2.3), so that none of them is
/// more than text wherever in a URI they stand.
pub(crate) fn encode_strictly(bytes: impl IntoIterator<Item = u8>, out: &mut Vec<u8>) {
    encode_unless(|byte| b"-._~".contains(&byte), bytes, out);
}

fn encode_unless(stays: impl Fn(u8) -> bool, bytes: impl IntoIterator<Item = u8>, out: &mut Vec<u8>) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || stays(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn broken_escapes_stand_for_themselves() {
        let decoded = |text: &str, plus| String::from_utf8(decode(text.as_bytes(), plus).collect()).unwrap();
        assert_eq!(decoded("a%20b+c", true), "a b c");
        assert_eq!(decoded("a%20b+c", false), "a b+c");
        assert_eq!(decoded("100%", true), "100%");
        assert_eq!(decoded("%zz%4", true), "%zz%4");
        assert_eq!(decoded("%C3%A9", true), "é");
    }

    #[test]
    fn what_a_part_of_a_uri_cannot_hold_is_encoded_and_escapes_stay() {
        let mut out = Vec::new();
        encode_path("/a b/é?%2F", &mut out);
        assert_eq!(out, b"/a%20b/%C3%A9%3F%2F");
        out.clear();
        encode_query("a b=\"/?&é#%2F", &mut out);
        assert_eq!(out, b"a%20b=%22/?&%C3%A9%23%2F");
        out.clear();
        encode_strictly(*b"a-b_~. &=+/%", &mut out);
        assert_eq!(out, b"a-b_~.%20%26%3D%2B%2F%25");
    }
}
