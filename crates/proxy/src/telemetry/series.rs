//! Series of one kind, one per worker and label set.

use std::sync::Arc;

use parking_lot::Mutex;

/// Series of all workers. A series is never removed, so that its counters never fall.
#[derive(Debug)]
pub struct SeriesList<T>(Mutex<Vec<(usize, Arc<T>)>>);

impl<T> SeriesList<T> {
    /// Returns the series of `worker` that `is_same` accepts; creates it if there is none.
    pub fn get_or_create(&self, worker: usize, is_same: impl Fn(&T) -> bool, create: impl FnOnce() -> T) -> Arc<T> {
        let mut all = self.0.lock();
        if let Some((_, known)) = all.iter().find(|(owner, known)| *owner == worker && is_same(known)) {
            return Arc::clone(known);
        }
        let series = Arc::new(create());
        all.push((worker, Arc::clone(&series)));
        series
    }

    /// Calls `visit` with every series.
    pub fn for_each(&self, mut visit: impl FnMut(&T)) {
        self.0.lock().iter().for_each(|(_, series)| visit(series));
    }
}

impl<T> Default for SeriesList<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
