//! Details of errors in the encoding of Protocol Buffers, and the encodings of fields.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Name of the message with the time of a retry.
pub(super) const RETRY_INFO: &str = "google.rpc.RetryInfo";
/// Bytes that `grpc-message` has in hexadecimal, besides those that are not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
/// Wire type of integers.
const VARINT: u8 = 0;
/// Wire type of texts, bytes and messages.
const LENGTH: u8 = 2;

/// Returns `google.rpc.Status` with a `RetryInfo` of `wait`.
pub(super) fn status_details(code: u8, message: &str, wait: Duration) -> Vec<u8> {
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
pub(super) fn retry_info(wait: Duration) -> Vec<u8> {
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

/// Returns `text` as `grpc-message` has it.
pub(super) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Returns `bytes` in base64 without padding, as fields have them.
pub(super) fn unpadded(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

/// Returns `bytes` in base64 with padding, as bodies of gRPC-Web in text have them.
pub(super) fn padded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
