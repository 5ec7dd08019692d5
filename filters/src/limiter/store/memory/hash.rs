//! Where a key belongs: its SipHash-1-3 (Aumasson and Bernstein), keyed so that nobody who does not know the key can
//! aim at somebody else's bucket.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::table::Place;

/// Texts up to this long are put side by side and hashed in one go: half of a streaming hasher's time goes into
/// gathering bytes across calls.
const INLINE: usize = 128;

/// Bytes before the texts: the length of the first, so that no two pairs look alike.
const PREFIX: usize = size_of::<u64>();

/// A hash function of its own in every store.
#[derive(Clone, Copy)]
pub(super) struct Hasher(SipHasher13);

impl Hasher {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(&key))
    }

    /// The place of a key id within a scope.
    #[inline]
    pub(super) fn key(&self, scope: &[u8], id: &[u8]) -> Place {
        let prefix = (scope.len() as u64).to_le_bytes();
        let mut buffer = [0; INLINE];
        if let Some(whole) = buffer.get_mut(..PREFIX + scope.len() + id.len()) {
            let (start, texts) = whole.split_at_mut(PREFIX);
            let (first, second) = texts.split_at_mut(scope.len());
            start.copy_from_slice(&prefix);
            first.copy_from_slice(scope);
            second.copy_from_slice(id);
            return place(&self.0, whole);
        }
        let mut hasher = self.0;
        hasher.write(&prefix);
        hasher.write(scope);
        place(&hasher, id)
    }

    /// The place of a scope itself: no scope is so long that a key could be there.
    pub(super) fn scope(&self, scope: &[u8]) -> Place {
        let mut hasher = self.0;
        hasher.write(&u64::MAX.to_le_bytes());
        place(&hasher, scope)
    }
}

/// The place of what `hasher` has taken, and `rest`.
#[inline]
fn place(hasher: &SipHasher13, rest: &[u8]) -> Place {
    let mut hasher = *hasher;
    hasher.write(rest);
    let hash = hasher.finish128();
    Place::new(hash.h1, hash.h2)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pairs_that_read_alike_have_places_of_their_own() {
        let hasher = Hasher::new([7; 16]);
        let long = "x".repeat(INLINE);
        let pairs = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"), (&long, "a"), (&long[1..], "xa")];
        let places = pairs.map(|(scope, id)| hasher.key(scope.as_bytes(), id.as_bytes()));
        let scopes = ["", "a", "abc", &long].map(|scope| hasher.scope(scope.as_bytes()));
        let distinct: HashSet<_> = places.iter().chain(&scopes).map(|place| format!("{place:?}")).collect();
        assert_eq!(distinct.len(), pairs.len() + scopes.len());
    }

    #[test]
    fn every_length_on_both_sides_of_the_buffers_is_told_apart() {
        let hasher = Hasher::new([7; 16]);
        let text = [0; 2 * INLINE];
        let places: HashSet<_> =
            (0..text.len()).map(|len| format!("{:?}", hasher.key(b"scope", &text[..len]))).collect();
        assert_eq!(places.len(), text.len());
    }
}
