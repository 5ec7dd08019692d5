//! Invalidation of cached denials when tokens are returned to a key, and of leases when an operator changes one.
//!
//! A client that returns tokens reports it twice: locally, before and after the call, and on a Redis channel that every
//! client subscribes to, behind the call on the same connection. A cached result is valid only while the version of
//! its keys is the one from when the call was *sent*. So a decision made before the return is known to be stale,
//! whichever reply arrives first.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::store::memory::hash::Hasher;
use crate::sync::random_key;

/// Pub/sub channel, behind the prefix of keys; a message is the name of a key in Redis, after [`REVOKE`] if its leases end
/// too.
pub(crate) const CHANNEL: &str = "tollgate.returned";

/// Beginning of a message that revokes the leases on a key. Names of keys have no space there, so gateways of earlier
/// versions ignore the message.
pub(crate) const REVOKE: &str = "revoke ";

/// Generation counters that all keys share. An invalidated key that shares its stripe with another costs that key one
/// more call.
const STRIPES: usize = 1_024;

/// One version for each stripe of keys, and one for all keys: notices may be missed while no connection listens.
pub(crate) struct Invalidations {
    hasher: Hasher,
    stripes: Box<[AtomicU32]>,
    all: AtomicU32,
}

/// Versions of some keys at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyVersions {
    all: u32,
    stripes: Box<[(u16, u32)]>,
}

impl Default for Invalidations {
    fn default() -> Self {
        let stripes = std::iter::repeat_with(AtomicU32::default).take(STRIPES).collect();
        Self { hasher: Hasher::new(random_key()), stripes, all: AtomicU32::default() }
    }
}

impl Invalidations {
    /// Current versions of `keys`.
    pub(crate) fn key_versions<'k>(&self, keys: impl ExactSizeIterator<Item = &'k [u8]>) -> KeyVersions {
        let stripe = |key| {
            let at = self.stripe(key);
            (at as u16, self.stripes[at].load(Ordering::Acquire))
        };
        KeyVersions { all: self.all.load(Ordering::Acquire), stripes: keys.map(stripe).collect() }
    }

    /// Returns true if no key was invalidated since `key_versions` were read.
    pub(crate) fn is_current(&self, key_versions: &KeyVersions) -> bool {
        let unchanged = |&(at, then): &(u16, u32)| self.stripes[usize::from(at)].load(Ordering::Acquire) == then;
        self.all.load(Ordering::Acquire) == key_versions.all && key_versions.stripes.iter().all(unchanged)
    }

    /// Invalidates what is cached of `key`, a name in Redis.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        self.stripes[self.stripe(key)].fetch_add(1, Ordering::AcqRel);
    }

    /// Invalidates what is cached of every key.
    pub(crate) fn invalidate_all(&self) {
        self.all.fetch_add(1, Ordering::AcqRel);
    }

    fn stripe(&self, key: &[u8]) -> usize {
        self.hasher.value(key) as usize % STRIPES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_versions_are_current_until_one_of_their_keys_is_invalidated() {
        let invalidations = Invalidations::default();
        let read = || invalidations.key_versions([&b"a"[..], b"b"].into_iter());
        let key_versions = read();
        assert!(invalidations.is_current(&key_versions));
        invalidations.invalidate(b"b");
        assert!(!invalidations.is_current(&key_versions));
        let key_versions = read();
        assert!(invalidations.is_current(&key_versions));
        invalidations.invalidate_all();
        assert!(!invalidations.is_current(&key_versions));
    }
}
