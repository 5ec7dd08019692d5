//! Replacement of `crates/limiter/src/sync.rs` with locks and atomics at which shuttle can switch threads. Its atomics are
//! always sequentially consistent: it tests orders of threads, not memory orderings.

pub(crate) use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// Returns a constant key, so that a failing schedule can be repeated.
pub(crate) fn random_key() -> [u8; 16] {
    *b"always the same!"
}
