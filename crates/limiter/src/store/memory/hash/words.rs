//! Hashes of values that derive [`Hash`], for fingerprints and for stripes of keys.

use std::hash::Hash;

use super::{Hasher, State};

/// Hash of values that derive [`Hash`]: the one of the standard library, of whole words. A number is one word; bytes are
/// padded to whole words, behind their length.
#[derive(Clone, Copy)]
pub(crate) struct WordHasher {
    state: State,
    words: u64,
}

impl Hasher {
    /// Returns the hash of `value`.
    pub(crate) fn value(&self, value: &(impl Hash + ?Sized)) -> u128 {
        let mut words = self.words();
        value.hash(&mut words);
        words.finish_128()
    }

    /// Returns a hasher of values.
    pub(crate) fn words(&self) -> WordHasher {
        WordHasher { state: self.state(), words: 0 }
    }
}

impl WordHasher {
    /// Returns the hash of the values so far.
    pub(crate) fn finish_128(&self) -> u128 {
        let Self { mut state, words } = *self;
        let high = state.finish_64((words * 8) << 56);
        state.1 ^= 0xdd;
        u128::from(high) << 64 | u128::from(state.finish())
    }
}

impl std::hash::Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.finish_128() as u64
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(bytes.len() as u64);
        self.state.absorb_text(bytes);
        self.words += bytes.len().div_ceil(8) as u64;
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.state.absorb(number);
        self.words += 1;
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher as _;

    use proptest::prelude::*;
    use siphasher::sip128::{Hasher128, SipHasher13};

    use super::*;

    proptest! {
        #[test]
        fn values_have_the_siphash_of_their_words(
            key in any::<[u8; 16]>(),
            numbers in prop::collection::vec(any::<u64>(), 0..40),
            text in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut words = Hasher::new(key).words();
            numbers.iter().for_each(|number| words.write_u64(*number));
            words.write(&text);
            let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&text);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let mut expected = SipHasher13::new_with_key(&key);
            expected.write(&bytes);
            let expected = expected.finish128();
            prop_assert_eq!(words.finish_128(), u128::from(expected.h1) << 64 | u128::from(expected.h2));
        }
    }

    #[test]
    fn values_of_other_lengths_and_boundaries_do_not_collide() {
        let hasher = Hasher::new([7; 16]);
        let pairs =
            [("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "bc\0"), ("a\0", "bc"), ("", "abc"), ("\u{3}", "abc")];
        let hashes = pairs.map(|pair| hasher.value(&pair));
        for (n, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..n].contains(hash), "{:?}", pairs[n]);
        }
        assert_ne!(hasher.value(&[1_u64, 2][..]), hasher.value(&[1_u64, 2, 0][..]));
    }
}
