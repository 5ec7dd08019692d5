//! Errors of gRPC, and their details in the encoding of Protocol Buffers.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::RetryAdvice;

/// Name of the message with the time of a retry.
pub const RETRY_INFO: &str = "google.rpc.RetryInfo";
/// Bytes that `grpc-message` has in hexadecimal, besides those that are not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
/// Wire type of integers.
const VARINT: u8 = 0;
/// Wire type of texts, bytes and messages.
const LENGTH: u8 = 2;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the trailers of a failed call with the status `code`. With advice about a retry, there are also
/// `grpc-retry-pushback-ms` and, for a time, `google.rpc.RetryInfo` in `grpc-status-details-bin`.
#[must_use]
pub fn error_fields(code: u8, message: &str, retry: Option<RetryAdvice>) -> Vec<(&'static str, String)> {
    let escaped = utf8_percent_encode(message, ESCAPED).to_string();
    let mut fields = vec![("grpc-status", code.to_string()), ("grpc-message", escaped)];
    match retry {
        Some(RetryAdvice::After(wait)) => {
            // Clients read 32 bits.
            let millis = wait.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128);
            fields.push(("grpc-retry-pushback-ms", millis.to_string()));
            fields.push(("grpc-status-details-bin", unpadded_base64(&status_details(code, message, wait))));
        }
        Some(RetryAdvice::Never) => fields.push(("grpc-retry-pushback-ms", "-1".to_owned())),
        None => {}
    }
    fields
}

/// Sets the fields of an error in the header: a response without messages has its trailers there.
pub fn set_error_fields(headers: &mut HeaderMap, code: u8, message: &str, retry: Option<RetryAdvice>) {
    for (name, value) in error_fields(code, message, retry) {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Returns true for requests of gRPC; gRPC-Web is another protocol.
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes()
            .strip_prefix(b"application/grpc")
            .is_some_and(|rest| matches!(rest, [] | [b'+' | b';' | b' ', ..]))
    })
}

/// Returns `google.rpc.Status` with a `RetryInfo` of `wait`.
#[must_use]
pub fn status_details(code: u8, message: &str, wait: Duration) -> Vec<u8> {
    let mut any = Vec::new();
    put_bytes(&mut any, 1, format!("type.googleapis.com/{RETRY_INFO}").as_bytes());
    put_bytes(&mut any, 2, &retry_info(wait));
    let mut status = Vec::new();
    put_number(&mut status, 1, code.into());
    put_bytes(&mut status, 2, message.as_bytes());
    put_bytes(&mut status, 3, &any);
    status
}

/// Returns `google.rpc.RetryInfo`.
#[must_use]
pub fn retry_info(wait: Duration) -> Vec<u8> {
    let mut delay = Vec::new();
    put_number(&mut delay, 1, wait.as_secs());
    put_number(&mut delay, 2, wait.subsec_nanos().into());
    let mut info = Vec::new();
    put_bytes(&mut info, 1, &delay);
    info
}

fn put_number(message: &mut Vec<u8>, field: u8, number: u64) {
    if number != 0 {
        message.push(field << 3 | VARINT);
        put_varint(message, number);
    }
}

fn put_bytes(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | LENGTH);
    put_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn put_varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

/// Returns `bytes` in base64 without padding, as binary fields have them.
#[must_use]
pub fn unpadded_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().chain(&[0, 0]).take(3).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let digits = (0..=chunk.len()).map(|at| BASE64[(number >> (18 - 6 * at)) as usize & 63]);
        text.extend(digits.map(char::from));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        // RFC 4648 §10, without padding.
        for (plain, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(unpadded_base64(plain.as_bytes()), text);
        }
        assert_eq!(unpadded_base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn grpc_is_told_from_grpc_web() {
        let has = |kind: &'static str| is_grpc(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]));
        assert!(has("application/grpc") && has("application/grpc+proto") && has("application/grpc;x=1"));
        assert!(!has("application/grpc-web") && !has("application/grpcx") && !has("application/json"));
    }
}
