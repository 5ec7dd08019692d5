//! Names of buckets in Redis: `request_rate_limiter.{<scope>.<key id>}.`, as in Spring Cloud Gateway.
//!
//! Spring writes both parts unescaped. There, route `a.b` with key `c` shares a bucket with route `a` and key `b.c`, and
//! a `}` in either part moves the hash slot. The names of this module are injective:
//!
//! - The scope percent-encodes `.`, so the first `.` ends it.
//! - Both parts percent-encode everything except ASCII letters, digits and `-._~:@/`.
//! - Long or secret parts become `#` and a hash. `#` appears nowhere else.
//!
//! Ordinary names equal those of Spring, including the dots of addresses: `request_rate_limiter.{orders.10.0.0.1}.`.

use sha2::{Digest, Sha256};

use super::BucketKey;

/// Prefix of every name.
pub const PREFIX: &[u8] = b"request_rate_limiter.{";

/// Longest part that is written readably, in bytes. Longer parts are hashed to bound the memory of keys in Redis.
pub const MAX_READABLE: usize = 128;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends the common prefix of the bucket's keys to `out`, up to and including the `.` after the hash tag.
///
/// `hash_id` replaces the key id by a hash, for secret ids. A hash does not protect ids that can be guessed, such as
/// short numbers.
pub fn write(key: BucketKey<'_>, hash_id: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(PREFIX);
    write_scope(key.scope, out);
    out.push(b'.');
    write_id(key.id, hash_id, out);
    out.extend_from_slice(b"}.");
}

/// Appends an encoded scope. It contains no dot, so the next dot ends it.
pub fn write_scope(scope: &str, out: &mut Vec<u8>) {
    write_part(scope.as_bytes(), false, is_plain_in_scope, out);
}

/// Appends an encoded key id, or its hash.
pub fn write_id(id: &[u8], hash: bool, out: &mut Vec<u8>) {
    write_part(id, hash, is_plain, out);
}

fn write_part(part: &[u8], hash: bool, plain: fn(u8) -> bool, out: &mut Vec<u8>) {
    if hash || part.len() > MAX_READABLE {
        return write_hash(part, out);
    }
    for &byte in part {
        if plain(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
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

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'@' | b'/')
}

fn is_plain_in_scope(byte: u8) -> bool {
    byte != b'.' && is_plain(byte)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    fn name(scope: &str, id: &[u8]) -> String {
        let mut out = Vec::new();
        write(BucketKey { scope, id }, false, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn ordinary_names_equal_those_of_spring() {
        assert_eq!(name("orders", b"10.0.0.1"), "request_rate_limiter.{orders.10.0.0.1}.");
        assert_eq!(
            name("user-service_2", b"alice@example.com"),
            "request_rate_limiter.{user-service_2.alice@example.com}."
        );
        assert_eq!(name("v6", b"2001:db8::/64"), "request_rate_limiter.{v6.2001:db8::/64}.");
    }

    #[test]
    fn a_dot_in_the_scope_is_encoded() {
        assert_eq!(name("a.b", b"c"), "request_rate_limiter.{a%2Eb.c}.");
        assert_ne!(name("a.b", b"c"), name("a", b"b.c"));
    }

    #[test]
    fn unsafe_bytes_are_encoded() {
        assert_eq!(name("a", b"{}%#\0\n \xff"), "request_rate_limiter.{a.%7B%7D%25%23%00%0A%20%FF}.");
        assert_eq!(name("", b""), "request_rate_limiter.{.}.");
    }

    #[test]
    fn a_long_part_is_hashed_and_a_short_one_cannot_pretend_to_be() {
        let longest = [b'a'; MAX_READABLE];
        assert!(name("r", &longest).contains("aaaa"));
        let hashed = name("r", &[b'a'; 1_000_000]);
        assert_eq!(hashed.len(), "request_rate_limiter.{r.#}.".len() + 32);
        let text = hashed.trim_start_matches("request_rate_limiter.{r.").trim_end_matches("}.");
        assert_ne!(name("r", text.as_bytes()), hashed);
    }

    #[test]
    fn a_secret_key_id_does_not_appear() {
        let mut out = Vec::new();
        write(BucketKey { scope: "r", id: b"s3cret" }, true, &mut out);
        let text = String::from_utf8(out).unwrap();
        // printf s3cret | sha256sum
        assert_eq!(text, "request_rate_limiter.{r.#1EC1C26B50D5D3C58D9583181AF80766}.");
    }

    fn tricky() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![prop::sample::select(b"ab.{}%#:\0\n2E".to_vec()), any::<u8>()];
        prop::collection::vec(byte, 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn two_different_pairs_never_share_a_name(
            a in "[ab.{}%#:]{0,4}", b in tricky(), c in "[ab.{}%#:]{0,4}", d in tricky()
        ) {
            prop_assert_eq!(name(&a, &b) == name(&c, &d), a == c && b == d);
        }

        #[test]
        fn a_name_is_printable_and_has_one_hash_tag_around_both_parts(
            scope in ".{0,200}", id in prop::collection::vec(any::<u8>(), 0..300)
        ) {
            let name = name(&scope, &id);
            prop_assert!(name.bytes().all(|b| b.is_ascii_graphic()));
            prop_assert_eq!(name.find('{'), Some(PREFIX.len() - 1));
            prop_assert_eq!(name.find('}'), Some(name.len() - 2));
            prop_assert_eq!(name.matches(['{', '}']).count(), 2);
            prop_assert!(name.len() < 900);
        }
    }
}
