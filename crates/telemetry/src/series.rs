//! Series of one kind by their labels, one per worker.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Series of all workers by labels. The series of one set of labels stay until none of them has another owner and a scrape
/// has shown their last values, so that no counter falls before it ends.
#[derive(Debug)]
pub struct SeriesList<K, T>(Mutex<HashMap<K, LabelledSeries<T>>>);

/// Series of one set of labels.
#[derive(Debug)]
struct LabelledSeries<T> {
    /// Series by the worker that writes it.
    workers: Vec<(usize, Arc<T>)>,
    /// True if the current scrape shows the last values.
    is_final: bool,
}

impl<K: Eq + Hash, T> SeriesList<K, T> {
    /// Returns the series of `worker` with the labels `key`; creates it if there is none.
    pub fn get_or_create(&self, worker: usize, key: K, create: impl FnOnce(&K) -> T) -> Arc<T> {
        match self.0.lock().entry(key) {
            Entry::Occupied(mut existing) => match existing.get().of(worker) {
                Some(series) => series,
                None => {
                    let created = create(existing.key());
                    existing.get_mut().add(worker, created)
                }
            },
            Entry::Vacant(missing) => {
                let created = create(missing.key());
                missing.insert(LabelledSeries { workers: Vec::new(), is_final: false }).add(worker, created)
            }
        }
    }

    /// Returns one of the series with the labels `key`, which keeps all of them; `None` if there are none.
    pub fn existing(&self, key: &K) -> Option<Arc<T>> {
        self.0.lock().get(key)?.workers.first().map(|(_, series)| Arc::clone(series))
    }

    /// Calls `visit` with every series, without a lock: workers create series while a scrape reads them.
    pub fn for_each(&self, mut visit: impl FnMut(&T)) {
        let all: Vec<Arc<T>> = {
            let all = self.0.lock();
            all.values().flat_map(|series| &series.workers).map(|(_, series)| Arc::clone(series)).collect()
        };
        all.iter().for_each(|series| visit(series));
    }

    /// Marks the series without other owners: their values do not change any more.
    pub fn mark_unused(&self) {
        self.0.lock().values_mut().for_each(|series| series.is_final = series.is_unused());
    }

    /// Removes the marked series, unless they have other owners again.
    pub fn remove_marked(&self) {
        self.0.lock().retain(|_, series| !(series.is_final && series.is_unused()));
    }
}

impl<K, T> Default for SeriesList<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> LabelledSeries<T> {
    /// Returns the series that `worker` writes.
    fn of(&self, worker: usize) -> Option<Arc<T>> {
        self.workers.iter().find(|(owner, _)| *owner == worker).map(|(_, series)| Arc::clone(series))
    }

    fn add(&mut self, worker: usize, series: T) -> Arc<T> {
        let series = Arc::new(series);
        // Few workers see a route of thousands.
        self.workers.reserve_exact(1);
        self.workers.push((worker, Arc::clone(&series)));
        series
    }

    fn is_unused(&self) -> bool {
        self.workers.iter().all(|(_, series)| Arc::strong_count(series) == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(list: &SeriesList<&str, u32>) -> Vec<u32> {
        list.mark_unused();
        let mut shown = Vec::new();
        list.for_each(|value| shown.push(*value));
        list.remove_marked();
        shown.sort_unstable();
        shown
    }

    #[test]
    fn series_end_after_the_scrape_that_shows_their_last_values() {
        let list = SeriesList::default();
        let workers = [0, 1].map(|worker| list.get_or_create(worker, "a", |_| 1));
        let other = list.get_or_create(0, "b", |_| 2);
        assert!(Arc::ptr_eq(&workers[0], &list.get_or_create(0, "a", |_| 3)));
        let [first, second] = workers;
        drop(first);
        assert_eq!(shown(&list), [1, 1, 2], "a sum of workers does not fall");
        assert_eq!(shown(&list), [1, 1, 2]);
        let kept = list.existing(&"a");
        assert!(kept.is_some() && list.existing(&"c").is_none());
        drop(second);
        assert_eq!([shown(&list), shown(&list)], [[1, 1, 2], [1, 1, 2]], "one of the series keeps all of its labels");
        drop(kept);
        assert_eq!(shown(&list), [1, 1, 2], "the last values");
        assert_eq!(shown(&list), [2]);
        list.mark_unused();
        drop(other);
        list.remove_marked();
        assert_eq!(shown(&list), [2], "it was in use when the scrape began");
        assert_eq!(shown(&list), [0; 0]);
    }
}
