//! Windows of the rules that use one log, so that a short window leaves what a longer one still counts.

use serde::{Deserialize, Serialize};

#[cfg(feature = "redis")]
use crate::rule::MAX_SAFE_INTEGER;
use crate::rule::SlidingWindowLog;

/// Most windows that are known at a time. A further one replaces the one that was used longest ago.
pub(super) const MAX_WINDOWS: usize = 4;

/// Largest limit that is known as it is.
const MAX_KNOWN_LIMIT: u64 = SlidingWindowLog::EXACT_LIMIT;

/// Factor of the time within the number that has both; the rest is the limit.
const LIMITS: u64 = 1 << 10;

/// Window of a rule, and its last use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UsedWindow {
    /// Length in microseconds; 0: none.
    pub(super) length_us: u64,
    /// Millisecond of the last use, rounded up, times 1024, plus the largest limit; 1001 stands for all larger limits.
    use_and_limit: u64,
}

/// Windows in use, shortest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UsedWindows([UsedWindow; MAX_WINDOWS]);

impl UsedWindow {
    fn new(limit: u64, length_us: u64, used_at_ms: u64) -> Self {
        Self { length_us, use_and_limit: used_at_ms * LIMITS + limit.min(MAX_KNOWN_LIMIT + 1) }
    }

    /// Decodes the result of [`to_stored`](Self::to_stored); `None` if it has another format.
    #[cfg(feature = "redis")]
    pub(super) fn from_stored(text: &str) -> Option<Self> {
        let mut numbers = text.split(':').map(|number| number.parse::<u64>().ok());
        let (length_us, used_at_ms, limit) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let is_valid = (1..=MAX_SAFE_INTEGER).contains(&length_us)
            && used_at_ms <= MAX_SAFE_INTEGER / 1_000
            && limit <= MAX_KNOWN_LIMIT + 1
            && numbers.next().is_none();
        is_valid.then(|| Self::new(limit, length_us, used_at_ms))
    }

    /// Returns `LENGTH:USED:LIMIT`, as the script stores it.
    #[cfg(feature = "redis")]
    pub(super) fn to_stored(self) -> String {
        format!("{}:{}:{}", self.length_us, self.used_at_ms(), self.limit())
    }

    fn used_at_ms(self) -> u64 {
        self.use_and_limit / LIMITS
    }

    fn limit(self) -> u64 {
        self.use_and_limit % LIMITS
    }

    /// Returns true if several requests may share an entry.
    fn is_coarse(self) -> bool {
        self.limit() > MAX_KNOWN_LIMIT
    }

    fn age_us(self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.used_at_ms().saturating_mul(1_000))
    }

    /// Returns true until no request has used the window for three times its length. Denials within that time renew it,
    /// and a gateway may remember a denial for the length of the window.
    fn is_live(self, now_us: u64) -> bool {
        self.length_us > 0 && self.age_us(now_us) < self.length_us * 3
    }

    fn grain_us(self) -> u64 {
        if self.is_coarse() { self.length_us.div_ceil(MAX_KNOWN_LIMIT) } else { 1 }
    }

    fn covers(self, at_us: u64, now_us: u64) -> bool {
        at_us.saturating_add(self.length_us) > now_us
    }
}

impl UsedWindows {
    /// Creates the list from windows in any order; `None` if there are too many.
    #[cfg(feature = "redis")]
    pub(super) fn from_stored(mut windows: Vec<UsedWindow>) -> Option<Self> {
        windows.sort_unstable_by_key(|window| window.length_us);
        let mut all = Self::default();
        all.0.get_mut(..windows.len())?.copy_from_slice(&windows);
        Some(all)
    }

    #[cfg(feature = "redis")]
    pub(super) fn iter(&self) -> impl Iterator<Item = UsedWindow> {
        self.0.into_iter().filter(|window| window.length_us > 0)
    }

    pub(super) fn live(&self, now_us: u64) -> impl Iterator<Item = UsedWindow> {
        self.0.into_iter().filter(move |window| window.is_live(now_us))
    }

    /// Returns the length of the longest live window, 0 without one.
    pub(super) fn longest_us(&self, now_us: u64) -> u64 {
        self.live(now_us).map(|window| window.length_us).max().unwrap_or(0)
    }

    /// Returns true if the window of this length is live.
    pub(super) fn is_live(&self, window_us: u64, now_us: u64) -> bool {
        self.live_window(window_us, now_us).is_some()
    }

    fn live_window(&self, window_us: u64, now_us: u64) -> Option<UsedWindow> {
        self.live(now_us).find(|window| window.length_us == window_us)
    }

    /// Returns true if a denial must note the window, so that it stays live.
    pub(super) fn is_due(&self, window_us: u64, now_us: u64) -> bool {
        let age_us = self.live_window(window_us, now_us).map(|window| window.age_us(now_us));
        age_us.is_none_or(|age_us| age_us.saturating_mul(2) >= window_us.saturating_mul(3))
    }

    /// Returns the live windows, with that of a rule that is used now.
    pub(super) fn noted(&self, limit: u64, window_us: u64, now_us: u64) -> Self {
        let now_ms = now_us.div_ceil(1_000);
        let mut noted_window = UsedWindow::new(limit, window_us, now_ms);
        if let Some(earlier) = self.live_window(window_us, now_us) {
            let is_recent =
                earlier.age_us(now_us).saturating_mul(4) < window_us && earlier.limit() >= noted_window.limit();
            let used_at_ms = if is_recent { earlier.used_at_ms() } else { now_ms };
            noted_window =
                UsedWindow::new(noted_window.limit().max(earlier.limit()), window_us, used_at_ms.min(now_ms));
        }
        let mut all: Vec<UsedWindow> =
            self.live(now_us).filter(|window| window.length_us != noted_window.length_us).collect();
        for window in &mut all {
            *window = UsedWindow::new(window.limit(), window.length_us, window.used_at_ms().min(now_ms));
        }
        if all.len() >= MAX_WINDOWS {
            let first = (0..all.len()).min_by_key(|at| (all[*at].used_at_ms(), all[*at].length_us));
            all.remove(first.unwrap_or(0));
        }
        all.push(noted_window);
        all.sort_unstable_by_key(|window| window.length_us);
        let mut noted = Self::default();
        noted.0.iter_mut().zip(all).for_each(|(slot, window)| *slot = window);
        noted
    }

    /// Returns true if no live window needs an entry of that time which `newer` later tokens follow. A limit of as many
    /// tokens is used up without it. An entry within the window `rule_window_us` of the present rule is kept in any case.
    pub(super) fn may_drop(&self, at_us: u64, newer: u64, rule_window_us: u64, now_us: u64) -> bool {
        self.live(now_us).all(|window| {
            let is_full = !window.is_coarse() && window.length_us != rule_window_us && newer >= window.limit();
            is_full || !window.covers(at_us, now_us)
        })
    }

    /// Returns the time within which requests share an entry: the shortest of all rules.
    pub(super) fn grain_us(&self, rule_window_us: u64, now_us: u64) -> u64 {
        self.live(now_us).map(UsedWindow::grain_us).min().unwrap_or(rule_window_us).min(rule_window_us)
    }

    /// Returns true if several windows are in use, and one of them shares entries.
    pub(super) fn may_merge(&self, now_us: u64) -> bool {
        self.live(now_us).count() > 1 && self.live(now_us).any(UsedWindow::is_coarse)
    }

    /// Returns the number of the grain of an old entry, among those of the shortest window that shares entries and counts
    /// it.
    pub(super) fn old_grain(&self, at_us: u64, now_us: u64) -> Option<(u64, u64)> {
        let grain_us = self
            .live(now_us)
            .filter(|window| window.is_coarse() && window.covers(at_us, now_us))
            .map(UsedWindow::grain_us)
            .min()?;
        Some((grain_us, at_us / grain_us))
    }
}
