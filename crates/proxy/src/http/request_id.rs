//! Request ids: one id for a request in the logs of client, gateway and upstream.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Longest id that is taken from a proxy.
const MAX_LENGTH: usize = 128;

/// Request id and its header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId {
    name: HeaderName,
    value: HeaderValue,
}

impl RequestId {
    /// Returns the id in the field `name` of `headers` if a trusted proxy sent it and it is acceptable: one value of 1 to
    /// 128 visible ASCII characters. Otherwise returns a new id: 128 random bits in hexadecimal digits.
    pub fn of(name: &HeaderName, headers: &HeaderMap, is_trusted: bool) -> Self {
        let received = if is_trusted { acceptable(headers, name) } else { None };
        Self { name: name.clone(), value: received.cloned().unwrap_or_else(random) }
    }

    /// Returns the id.
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// Sets the field of a request or response, in place of a field of that name.
    pub fn set(&self, headers: &mut HeaderMap) {
        headers.insert(self.name.clone(), self.value.clone());
    }
}

fn acceptable<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let (only, None) = (values.next()?, values.next()) else { return None };
    let is_acceptable = (1..=MAX_LENGTH).contains(&only.len()) && only.as_bytes().iter().all(u8::is_ascii_graphic);
    is_acceptable.then_some(only)
}

/// Two digits of each byte in hexadecimal.
static HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        digits[byte] = [DIGITS[byte / 16], DIGITS[byte % 16]];
        byte += 1;
    }
    digits
};

fn random() -> HeaderValue {
    let mut digits = [0; 32];
    digits.copy_from_slice(fastrand::u128(..).to_ne_bytes().map(|byte| HEX[usize::from(byte)]).as_flattened());
    // A copy for the log and for the upstream is a reference to these bytes, without an allocation of its own.
    HeaderValue::from_maybe_shared(Bytes::from_owner(digits)).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("x-request-id");

    fn id(values: &[&[u8]], is_trusted: bool) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(NAME, HeaderValue::from_bytes(value).unwrap());
        }
        RequestId::of(&NAME, &headers, is_trusted).value().to_str().unwrap().to_owned()
    }

    #[test]
    fn only_acceptable_ids_of_trusted_proxies_are_taken() {
        let longest = "x".repeat(MAX_LENGTH);
        for taken in ["a", "7f3a-\"<b>\"{}", &longest] {
            assert_eq!(id(&[taken.as_bytes()], true), taken);
        }
        let too_long = "x".repeat(MAX_LENGTH + 1);
        let refused: [&[&[u8]]; 6] = [&[], &[b""], &[b"a b"], &[b"a\tb"], &[b"\xe9"], &[b"a", b"a"]];
        for made in refused
            .map(|values| id(values, true))
            .into_iter()
            .chain([id(&[too_long.as_bytes()], true), id(&[b"a"], false)])
        {
            assert!(made.len() == 32 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
        }
        assert_ne!(id(&[], true), id(&[], true));
    }
}
