//! SipHash-1-3 (Aumasson and Bernstein), over two texts in one pass: the first half of its 128-bit result.
//!
//! The standard library's maps use the same hash. Its secret key prevents clients from constructing collisions. A
//! streaming hasher spends half of its time on collecting bytes into words across calls. Here each text is padded to
//! whole words, and the last word contains both lengths, so different pairs have different inputs.

#[cfg(feature = "redis")]
mod words;

use super::table::KeyHash;

/// Hasher with a secret key of 128 bits.
#[derive(Clone, Copy)]
pub(crate) struct Hasher {
    k0: u64,
    k1: u64,
}

/// State of SipHash: four words.
#[derive(Clone, Copy)]
struct State(u64, u64, u64, u64);

/// Bits of each length in the last word. They suffice for texts below 256 MB.
const LENGTH_BITS: u32 = 28;

const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

impl Hasher {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self { k0: word(&key[..8]), k1: word(&key[8..]) }
    }

    /// Returns the secret key.
    pub(super) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.k1) << 64 | u128::from(self.k0)).to_le_bytes()
    }

    /// Returns the hash of a key id within a scope.
    #[inline]
    pub(super) fn key(&self, scope: &[u8], id: &[u8]) -> KeyHash {
        self.hash(scope, id, (scope.len() as u64 & LENGTH_MASK) << LENGTH_BITS | (id.len() as u64 & LENGTH_MASK))
    }

    /// Returns the hash of a scope. Its length field is larger than that of any key id, so it differs from all keys.
    pub(super) fn scope(&self, scope: &[u8]) -> KeyHash {
        self.hash(scope, &[], (scope.len() as u64 & LENGTH_MASK) << LENGTH_BITS | LENGTH_MASK)
    }

    #[inline(always)]
    fn state(&self) -> State {
        State(
            self.k0 ^ 0x736f_6d65_7073_6575,
            self.k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            self.k0 ^ 0x6c79_6765_6e65_7261,
            self.k1 ^ 0x7465_6462_7974_6573,
        )
    }

    #[inline(always)]
    fn hash(&self, scope: &[u8], id: &[u8], lengths: u64) -> KeyHash {
        let mut state = self.state();
        state.absorb_text(scope);
        state.absorb_text(id);
        // As in the standard, the last byte is the length of the input: both padded texts and seven bytes.
        let hashed = scope.len().next_multiple_of(8) + id.len().next_multiple_of(8) + 7;
        KeyHash(state.finish_64((hashed as u64) << 56 | lengths))
    }
}

impl State {
    #[inline]
    fn absorb_text(&mut self, text: &[u8]) {
        let (words, rest) = text.as_chunks::<8>();
        for &bytes in words {
            self.absorb(u64::from_le_bytes(bytes));
        }
        if !rest.is_empty() {
            self.absorb(word(rest));
        }
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.3 ^= word;
        self.round();
        self.0 ^= word;
    }

    /// Absorbs the last word, and returns the first half of the result.
    #[inline]
    fn finish_64(&mut self, last: u64) -> u64 {
        self.absorb(last);
        self.2 ^= 0xee;
        self.finish()
    }

    #[inline]
    fn finish(&mut self) -> u64 {
        self.round();
        self.round();
        self.round();
        self.0 ^ self.1 ^ self.2 ^ self.3
    }

    #[inline]
    fn round(&mut self) {
        let Self(mut a, mut b, mut c, mut d) = *self;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        d = d.rotate_left(21) ^ a;
        b = b.rotate_left(17) ^ c;
        *self = Self(a, b, c.rotate_left(32), d);
    }
}

/// Reads up to eight bytes as a little-endian number, without a copy of variable length.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*eight);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // The two halves overlap in equal bytes at equal positions.
        (Some(&low), Some(&high)) => {
            let shift = 8 * (bytes.len() - 4);
            u64::from(u32::from_le_bytes(low)) | u64::from(u32::from_le_bytes(high)) << shift
        }
        _ => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::hash::Hasher as _;

    use proptest::prelude::*;
    use siphasher::sip128::{Hasher128, SipHasher13};

    use super::*;

    #[test]
    fn two_stores_hash_one_key_differently() {
        let key = |hasher: Hasher| hasher.key(b"route", b"key");
        let (one, other) = (crate::sync::random_key(), crate::sync::random_key());
        assert!(key(Hasher::new(one)) == key(Hasher::new(one)));
        assert!(key(Hasher::new(one)) != key(Hasher::new(other)), "a client cannot compute the place of a key");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn equals_siphash_of_both_padded_texts_and_their_lengths(
            key in any::<[u8; 16]>(),
            scope in prop::collection::vec(any::<u8>(), 0..40),
            id in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut padded = scope.clone();
            padded.resize(padded.len().next_multiple_of(8), 0);
            padded.extend_from_slice(&id);
            padded.resize(padded.len().next_multiple_of(8), 0);
            let lengths = (scope.len() as u64) << 28 | id.len() as u64;
            padded.extend_from_slice(&lengths.to_le_bytes()[..7]);
            let mut expected = SipHasher13::new_with_key(&key);
            expected.write(&padded);
            let expected = expected.finish128();
            prop_assert_eq!(Hasher::new(key).key(&scope, &id), KeyHash(expected.h1));
        }

        #[test]
        fn a_word_is_its_bytes_padded_with_zeros(bytes in prop::collection::vec(any::<u8>(), 0..9)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(&bytes);
            prop_assert_eq!(word(&bytes), u64::from_le_bytes(padded));
        }
    }

    #[test]
    fn boundaries_padding_and_scopes_do_not_collide() {
        let hasher = Hasher::new([7; 16]);
        let hashes = [
            hasher.key(b"a", b"bc"),
            hasher.key(b"ab", b"c"),
            hasher.key(b"abc", b""),
            hasher.key(b"a", b"bc\0"),
            hasher.key(b"a\0", b"bc"),
            hasher.key(b"", b"abc"),
            hasher.scope(b"abc"),
            hasher.scope(b"a"),
        ];
        for (n, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..n].contains(hash), "number {n}");
        }
    }
}
