//! Names of buckets in Redis.
//!
//! A token bucket has the names of Spring Cloud Gateway, `request_rate_limiter.{<scope>.<key id>}.`, so that both
//! gateways count in one bucket. Spring writes both parts as they are. There, route `a.b` with key `c` shares a bucket
//! with route `a` and key `b.c`, and a `}` in either part moves the hash slot. So some parts are written otherwise:
//!
//! - A scope percent-encodes `.`, `%`, `#`, braces and everything that is not printable. The first `.` ends it.
//! - A key id with braces, or one that is not printable, becomes `#` and its percent-encoded text. So does a key id that
//!   starts with `#`: no other one starts like that.
//! - A part longer than [`MAX_PLAIN`], and a secret key id, becomes `#` and a hash without `%`.
//!
//! All other keys percent-encode everything except ASCII letters, digits and `-._~:@/`, in a scope also `.`.
//! [`MAX_READABLE`] is their longest part. Both forms are injective, and their names have different prefixes.

use sha2::{Digest, Sha256};

use super::BucketKey;

/// Prefix of every name of a token bucket.
pub const PREFIX: &[u8] = b"request_rate_limiter.{";

/// Longest part of a token bucket's name that is written as it is, in bytes. Common JSON Web Tokens fit.
///
/// A bucket has two keys, which both contain the part: it takes at most about 5 KB in Redis, whatever clients send.
pub const MAX_PLAIN: usize = 2_048;

/// Longest part that is percent-encoded, in bytes. Longer parts are hashed to bound the memory of keys in Redis.
pub const MAX_READABLE: usize = 128;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends the common prefix of a token bucket's keys to `out`, up to and including the `.` after the hash tag.
///
/// `hash_id` replaces the key id by a hash, for secret ids. A hash does not protect ids that can be guessed, such as
/// short numbers.
pub fn write(key: BucketKey<'_>, hash_id: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(PREFIX);
    write_plain_scope(key.scope, out);
    out.push(b'.');
    write_plain_id(key.id, hash_id, out);
    out.extend_from_slice(b"}.");
}

/// Appends an encoded scope. It contains no dot, so the next dot ends it.
pub fn write_scope(scope: &str, out: &mut Vec<u8>) {
    write_part(scope.as_bytes(), false, is_unreserved_in_scope, out);
}

/// Appends an encoded key id, or its hash.
pub fn write_id(id: &[u8], hash: bool, out: &mut Vec<u8>) {
    write_part(id, hash, is_unreserved, out);
}

/// Appends a scope as Spring writes it, except for the characters that would make it ambiguous.
fn write_plain_scope(scope: &str, out: &mut Vec<u8>) {
    if scope.len() > MAX_PLAIN {
        return write_hash(scope.as_bytes(), out);
    }
    let is_encoded = |char: char| char.is_control() || matches!(char, '.' | '%' | '#' | '{' | '}');
    for part in scope.split_inclusive(is_encoded) {
        let plain = part.trim_end_matches(is_encoded);
        out.extend_from_slice(plain.as_bytes());
        part[plain.len()..].bytes().for_each(|byte| write_encoded(byte, out));
    }
}

/// Appends a key id as Spring writes it, if that is unambiguous.
fn write_plain_id(id: &[u8], hash: bool, out: &mut Vec<u8>) {
    if !hash && is_plain(id) {
        return out.extend_from_slice(id);
    }
    if !hash && id.len() <= MAX_READABLE {
        // At least one byte is percent-encoded, so the text is no hash.
        out.push(b'#');
    }
    write_id(id, hash, out);
}

fn write_part(part: &[u8], hash: bool, unreserved: fn(u8) -> bool, out: &mut Vec<u8>) {
    if hash || part.len() > MAX_READABLE {
        return write_hash(part, out);
    }
    for &byte in part {
        if unreserved(byte) {
            out.push(byte);
        } else {
            write_encoded(byte, out);
        }
    }
}

fn write_encoded(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Appends `#` and the first 128 bits of the SHA-256.
///
/// All gateways must compute the same name, so the hash is unkeyed; it must therefore be collision resistant.
fn write_hash(part: &[u8], out: &mut Vec<u8>) {
    out.push(b'#');
    for byte in &Sha256::digest(part)[..16] {
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Returns true if a token bucket's name contains the key id as it is.
fn is_plain(id: &[u8]) -> bool {
    if id.len() > MAX_PLAIN || id.first() == Some(&b'#') {
        return false;
    }
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'{' | b'}');
    // Control characters are the same in every version of Unicode, so all gateways agree.
    id.iter().all(is_printable)
        || std::str::from_utf8(id).is_ok_and(|id| !id.contains(|c: char| c.is_control() || matches!(c, '{' | '}')))
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'@' | b'/')
}

fn is_unreserved_in_scope(byte: u8) -> bool {
    byte != b'.' && is_unreserved(byte)
}

#[cfg(test)]
mod tests;
