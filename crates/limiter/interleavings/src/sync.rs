//! In the stead of `crates/limiter/src/sync.rs`: locks and atomics at each of which shuttle may let another thread go first. Its atomics
//! are sequentially consistent whatever is asked of them: it is orders of threads that are tried out, not of memory.

pub(crate) use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// The same in every run, so that a failing order can be repeated.
pub(crate) fn random_key() -> [u8; 16] {
    *b"always the same!"
}
