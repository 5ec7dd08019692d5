//! Log of decisions, and the properties that it must have.

use std::time::{Duration, Instant};

use tollgate_limiter::verdict::{Outcome, Source, Verdict};

use super::{LIMIT, MAX_WAIT, POLICIES};

/// A decision: requested at `sent`, made at some moment until `answered`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: &'static str,
    pub(super) sent: Instant,
    pub(super) answered: Instant,
    pub(super) verdict: Verdict,
}

/// All decisions.
pub(super) struct Log {
    entries: Vec<Entry>,
}

impl Entry {
    fn took(&self) -> Duration {
        self.answered - self.sent
    }

    fn is_without_redis(&self) -> bool {
        self.verdict.source == Source::Fallback
    }
}

impl Log {
    pub(super) fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by_key(|entry| entry.sent);
        Self { entries }
    }

    /// Returns the number of requests between two moments, and of those decided without Redis.
    pub(super) fn during(&self, begin: Instant, end: Instant) -> (usize, usize) {
        let during = || self.entries.iter().filter(|entry| entry.sent >= begin && entry.sent <= end);
        (during().count(), during().filter(|entry| entry.is_without_redis()).count())
    }

    /// Asserts the longest wait, the policies and the limits. Returns the longest wait.
    pub(super) fn assert_tolerated(&self) -> Duration {
        for entry in &self.entries {
            assert!(entry.took() < MAX_WAIT, "{entry:?}");
            let meant = match (entry.key, entry.is_without_redis()) {
                ("allow", true) => entry.verdict.outcome == Outcome::Allowed,
                ("deny", true) => matches!(entry.verdict.outcome, Outcome::StoreUnavailable { .. }),
                _ => matches!(entry.verdict.outcome, Outcome::Allowed | Outcome::Denied { .. }),
            };
            assert!(meant, "{entry:?}");
        }
        for (key, _) in POLICIES {
            self.assert_bounded(key, false);
        }
        self.assert_bounded("local", true);
        self.entries.iter().map(Entry::took).max().unwrap()
    }

    /// Asserts that neither Redis nor this process admitted more than burst + rate × time in any window.
    fn assert_bounded(&self, key: &str, without_redis: bool) {
        let counted = |entry: &&Entry| {
            entry.key == key && entry.is_without_redis() == without_redis && entry.verdict.is_allowed()
        };
        let admitted: Vec<&Entry> = self.entries.iter().filter(counted).collect();
        let (rate, burst) = LIMIT;
        for (first, begin) in admitted.iter().enumerate() {
            let mut end = begin.answered;
            for (count, entry) in (1_u64..).zip(&admitted[first..]) {
                end = end.max(entry.answered);
                let most = burst as f64 + rate as f64 * (end - begin.sent).as_secs_f64();
                assert!(count as f64 <= most + 1e-3, "{key}: {count} admitted where {most} are, from {begin:?}");
            }
        }
    }
}
