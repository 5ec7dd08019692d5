//! Locks and randomness of the memory store.
//!
//! `crates/limiter/interleavings` replaces this module with the types of shuttle to test thread interleavings.

pub(crate) use parking_lot::{Mutex, MutexGuard};

/// Returns a random key from the operating system, or from the standard library's `RandomState` if that fails.
pub(crate) fn random_key() -> [u8; 16] {
    use std::hash::{BuildHasher, Hasher as _, RandomState};

    let mut key = [0; 16];
    if getrandom::fill(&mut key).is_err() {
        for half in key.chunks_exact_mut(8) {
            half.copy_from_slice(&RandomState::new().build_hasher().finish().to_ne_bytes());
        }
    }
    key
}
