//! Which keys something was given back to, as far as it matters to those who noted that nothing is left there.
//!
//! Whoever gives back says so twice: to itself, before the call and after it, and on a channel of Redis that every
//! client listens to, behind the call on the same connection. So whatever was decided before something was given back
//! is known to be old, whichever answer arrives first: a note holds only while the key's generation is still the one
//! that it was when the question was *sent*.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

/// The channel; a message is the name of a key in Redis.
pub(in super::super) const CHANNEL: &str = "tollgate.returned";

/// Generations that all keys share: a key whose neighbour was given something costs one more call.
const STRIPES: usize = 1_024;

/// A generation of each stripe, and one of all: what was said while nobody listened was said of any key.
pub(super) struct Returns {
    seed: RandomState,
    stripes: Box<[AtomicU32]>,
    all: AtomicU32,
}

/// Generations of some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Seen {
    all: u32,
    stripes: Box<[(u16, u32)]>,
}

impl Default for Returns {
    fn default() -> Self {
        let stripes = std::iter::repeat_with(AtomicU32::default).take(STRIPES).collect();
        Self { seed: RandomState::new(), stripes, all: AtomicU32::default() }
    }
}

impl Returns {
    /// What is known of `keys` now.
    pub(super) fn look<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Seen {
        let stripe = |key| {
            let at = self.stripe(key);
            (at as u16, self.stripes[at].load(Ordering::Acquire))
        };
        Seen { all: self.all.load(Ordering::Acquire), stripes: keys.map(stripe).collect() }
    }

    /// Whether nothing was given back since.
    pub(super) fn are_none_since(&self, seen: &Seen) -> bool {
        let still = |&(at, then): &(u16, u32)| self.stripes[usize::from(at)].load(Ordering::Acquire) == then;
        self.all.load(Ordering::Acquire) == seen.all && seen.stripes.iter().all(still)
    }

    /// Something was given back to `key`.
    pub(super) fn note(&self, key: &[u8]) {
        self.stripes[self.stripe(key)].fetch_add(1, Ordering::AcqRel);
    }

    /// Something may have been given back to any key.
    pub(super) fn note_all(&self) {
        self.all.fetch_add(1, Ordering::AcqRel);
    }

    fn stripe(&self, key: &[u8]) -> usize {
        self.seed.hash_one(key) as usize % STRIPES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_holds_until_something_is_given_back_to_one_of_its_keys() {
        let returns = Returns::default();
        let look = || returns.look([&b"a"[..], b"b"].into_iter());
        let seen = look();
        assert!(returns.are_none_since(&seen));
        returns.note(b"b");
        assert!(!returns.are_none_since(&seen));
        let seen = look();
        assert!(returns.are_none_since(&seen));
        returns.note_all();
        assert!(!returns.are_none_since(&seen));
    }
}
