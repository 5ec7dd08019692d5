//! Places of renamed scopes: a rule whose name a reload changed keeps the states of its keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::ArcSwap;

use super::table::KeyHash;
use super::{KeyLocation, MemoryStore};
use crate::key::BucketKey;

/// Scopes that count under another one, with that one.
#[derive(Default)]
pub(super) struct Places {
    /// True if there are any. Without them, a decision costs one load.
    is_used: AtomicBool,
    by_scope: ArcSwap<HashMap<Arc<str>, Arc<str>>>,
}

impl Places {
    /// Returns the place of `scope`; `None` if it is the scope itself.
    #[inline]
    pub(super) fn get(&self, scope: &str) -> Option<Arc<str>> {
        if self.is_used.load(Relaxed) { self.find(scope) } else { None }
    }

    #[cold]
    fn find(&self, scope: &str) -> Option<Arc<str>> {
        self.by_scope.load().get(scope).cloned()
    }

    /// Replaces all places.
    pub(super) fn set(&self, by_scope: HashMap<Arc<str>, Arc<str>>) {
        let is_used = !by_scope.is_empty();
        self.by_scope.store(Arc::new(by_scope));
        self.is_used.store(is_used, Relaxed);
    }
}

impl MemoryStore {
    /// Declares the limiters that use the store, by their scopes. Each gets its share from the start; an undeclared
    /// limiter gets one with its first key. Limiters that are no longer declared keep theirs until their keys expire.
    pub fn declare(&self, scopes: impl IntoIterator<Item = Arc<str>>) {
        let declared: Vec<_> = scopes.into_iter().map(|scope| (self.scope_hash(&scope), scope)).collect();
        self.shares.lock().declare(&declared);
    }

    /// Lets scopes count under others: a renamed rule keeps the states of its keys. Replaces all earlier ones, and must
    /// precede [`declare`](Self::declare).
    pub fn rename(&self, places: HashMap<Arc<str>, Arc<str>>) {
        self.places.set(places);
    }

    /// Computes the hashes of `key`.
    #[inline]
    pub(crate) fn locate(&self, key: BucketKey<'_>) -> KeyLocation {
        KeyLocation { key: self.key_hash(key), scope: self.scope_hash(key.scope) }
    }

    #[inline]
    pub(super) fn key_hash(&self, key: BucketKey<'_>) -> KeyHash {
        match self.places.get(key.scope) {
            None => self.hasher.key(key.scope.as_bytes(), key.id),
            Some(place) => self.hasher.key(place.as_bytes(), key.id),
        }
    }

    pub(super) fn scope_hash(&self, scope: &str) -> KeyHash {
        let place = self.places.get(scope);
        self.hasher.scope(place.as_deref().unwrap_or(scope).as_bytes())
    }
}
