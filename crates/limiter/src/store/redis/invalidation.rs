//! Invalidation of cached denials when tokens are returned to a key, and of leases when an operator changes one.
//!
//! A client that returns tokens reports it twice: locally, before and after the call, and on a Redis channel that every
//! client subscribes to, behind the call on the same connection. A cached result is valid only while none of its
//! keys was invalidated since the call was *sent*. So a decision made before the return is known to be stale, whichever
//! reply arrives first.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::memory::hash::Hasher;
use crate::sync::random_key;

/// Pub/sub channel, behind the prefix of keys; a message is the name of a key in Redis, after [`REVOKE`] if its leases end
/// too.
pub(crate) const CHANNEL: &str = "tollgate.returned";

/// Beginning of a message that revokes the leases on a key. Names of keys have no space there, so gateways of earlier
/// versions ignore the message.
pub(crate) const REVOKE: &str = "revoke ";

/// Marks that all keys share. An invalidated key that shares its stripe with another costs that key one
/// more call.
const STRIPES: usize = 1_024;

/// Number of invalidations so far, and the number of the last one of each stripe of keys and of all keys: notices may be
/// missed while no connection listens.
pub(crate) struct Invalidations {
    hasher: Hasher,
    count: AtomicU64,
    stripes: Box<[AtomicU64]>,
    all: AtomicU64,
}

/// Moment between two invalidations: the number of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// Keys whose invalidations since an epoch count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedKeys {
    stripes: Box<[u16]>,
    since: Epoch,
}

impl Default for Invalidations {
    fn default() -> Self {
        let stripes = std::iter::repeat_with(AtomicU64::default).take(STRIPES).collect();
        Self { hasher: Hasher::new(random_key()), count: AtomicU64::default(), stripes, all: AtomicU64::default() }
    }
}

impl Invalidations {
    /// Returns the present moment.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.count.load(Ordering::Acquire))
    }

    /// Watches `keys` since an epoch.
    pub(crate) fn watch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, since: Epoch) -> WatchedKeys {
        WatchedKeys { stripes: keys.map(|key| self.stripe(key) as u16).collect(), since }
    }

    /// Returns true if none of `keys` was invalidated since their epoch.
    pub(crate) fn is_current(&self, keys: &WatchedKeys) -> bool {
        let is_older = |last: &AtomicU64| last.load(Ordering::Acquire) <= keys.since.0;
        is_older(&self.all) && keys.stripes.iter().all(|&at| is_older(&self.stripes[usize::from(at)]))
    }

    /// Invalidates what is cached of `key`, a name in Redis.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        self.mark(&self.stripes[self.stripe(key)]);
    }

    /// Invalidates what is cached of every key.
    pub(crate) fn invalidate_all(&self) {
        self.mark(&self.all);
    }

    fn mark(&self, last: &AtomicU64) {
        let number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        last.fetch_max(number, Ordering::AcqRel);
    }

    fn stripe(&self, key: &[u8]) -> usize {
        self.hasher.value(key) as usize % STRIPES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_keys_are_current_until_one_of_them_is_invalidated() {
        let invalidations = Invalidations::default();
        let watch = |since| invalidations.watch([&b"a"[..], b"b"].into_iter(), since);
        let (sent, keys) = (invalidations.epoch(), watch(invalidations.epoch()));
        assert!(invalidations.is_current(&keys));
        invalidations.invalidate(b"b");
        assert!(
            !invalidations.is_current(&keys) && !invalidations.is_current(&watch(sent)),
            "watched later, sent before"
        );
        let keys = watch(invalidations.epoch());
        assert!(invalidations.is_current(&keys));
        invalidations.invalidate_all();
        assert!(!invalidations.is_current(&keys) && invalidations.is_current(&watch(invalidations.epoch())));
    }
}
