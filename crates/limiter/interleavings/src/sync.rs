//! Replacement of `crates/limiter/src/sync.rs` with locks at which shuttle can switch threads.

pub(crate) use shuttle::sync::MutexGuard;

#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// Returns a constant key, so that a failing schedule can be repeated.
pub(crate) fn random_key() -> [u8; 16] {
    *b"always the same!"
}
