//! What the store in memory shares between threads, in one place, so that `filters/interleavings` can put in its
//! stead what tries out the orders in which threads may come.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(crate) use parking_lot::{Mutex, MutexGuard};

/// A key from the operating system. Where it gives none, the standard library's own random state stands in.
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
