//! State of a sliding window that is estimated: counters for each length of a window in use.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::algorithm::lengths::{ByLength, Counted, LengthWindow, Used};
use crate::algorithm::{Moment, State};

/// Counters of a key: 32 bytes, and a box while rules with several lengths of windows use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters(ByLength<Windows>);

/// Tokens of the current and the previous window of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Windows {
    /// End of the current window: microseconds.
    pub(super) ends_at_us: u64,
    /// Length of a window: microseconds.
    length_us: NonZeroU64,
    /// Tokens consumed in the previous window.
    pub(super) previous: u64,
    /// Tokens consumed in the current window.
    pub(super) current: u64,
}

impl Counters {
    pub(super) fn new(rule_window: Windows, others: Vec<Used<Windows>>, now_us: u64) -> Self {
        Self(ByLength::new(rule_window, others, now_us))
    }

    /// Returns the counters at `now` for a rule whose window without tokens is `fresh`.
    ///
    /// If the clock was set back, tokens of windows in the future count as consumed now. If the length is new to the key,
    /// the counters of the longest window are used: each token counts as consumed at the latest time that they allow.
    /// Other lengths are kept while their rules use the key.
    pub(super) fn at(&self, fresh: Windows, now: Moment) -> Counted<Windows> {
        let (mut is_stale, mut longest) = (false, None::<Windows>);
        let (rule_window, others) = self.0.split(&fresh, now.now_us, |windows| {
            let (windows, was_set_back) = windows.moved_on(now);
            is_stale |= was_set_back;
            if windows.count() && longest.is_none_or(|longest| longest.length_us < windows.length_us) {
                longest = Some(windows);
            }
            windows
        });
        let Some(longest) = longest else { return Counted::fresh(fresh) };
        let rule_window = rule_window.map_or_else(
            || {
                let rule_window = fresh.estimated_from(&longest);
                is_stale |= rule_window.count();
                rule_window
            },
            |rule_window| if rule_window.count() { rule_window } else { fresh },
        );
        Counted { rule_window, others, is_stale }
    }

    /// Returns the text that lua/sliding_window_counter.lua stores: for each length the start of the current window, the
    /// tokens consumed in the previous and in the current window, the length and, if there are several, the last use.
    #[cfg(feature = "redis")]
    pub(crate) fn to_stored(&self) -> String {
        self.0.to_stored(|windows| {
            format!("{} {} {} {}", windows.began_at_us(), windows.previous, windows.current, windows.length_us)
        })
    }

    /// Decodes the result of [`to_stored`](Self::to_stored); `None` if it has another format.
    #[cfg(feature = "redis")]
    pub(crate) fn from_stored(text: &str) -> Option<Self> {
        let read = |numbers: &[u64]| {
            let (start_us, previous, current, window_us, at_us) = match *numbers {
                [start_us, previous, current, window_us] => (start_us, previous, current, window_us, u64::MAX),
                [start_us, previous, current, window_us, at_us] => (start_us, previous, current, window_us, at_us),
                _ => return None,
            };
            let length_us = NonZeroU64::new(window_us)?;
            let windows = Windows { ends_at_us: start_us.saturating_add(window_us), length_us, previous, current };
            Some(Used { window: windows, at_us })
        };
        ByLength::from_stored(text, read).map(Self)
    }
}

impl Windows {
    /// Returns windows without tokens.
    pub(super) fn starting(ends_at_us: u64, window_us: u64) -> Self {
        Self { ends_at_us, length_us: NonZeroU64::new(window_us).unwrap_or(NonZeroU64::MIN), previous: 0, current: 0 }
    }

    /// Returns the length of a window in microseconds.
    pub(super) fn window_us(&self) -> u64 {
        self.length_us.get()
    }

    /// Returns true if a token counts.
    fn count(&self) -> bool {
        self.previous > 0 || self.current > 0
    }

    /// Returns the windows moved on to `now`, and true if the clock was set back before them.
    fn moved_on(&self, now: Moment) -> (Self, bool) {
        let Self { ends_at_us, previous, current, .. } = *self;
        let window_us = self.window_us();
        let next_ends_at_us = ends_at_us.saturating_add(window_us);
        let now_us = now.now_us;
        let fresh_end_us = now_us.saturating_add(window_us - now.wall_us % window_us);
        if now_us < self.began_at_us() && self.count() {
            (Self { ends_at_us: fresh_end_us, previous: 0, current: previous + current, ..*self }, true)
        } else if now_us < ends_at_us {
            (*self, false)
        } else if now_us < next_ends_at_us {
            (Self { ends_at_us: next_ends_at_us, previous: current, current: 0, ..*self }, false)
        } else {
            (Self { ends_at_us: fresh_end_us, previous: 0, current: 0, ..*self }, false)
        }
    }

    /// Returns these windows with the tokens of `other`, each at the latest time at which it may have been consumed.
    fn estimated_from(&self, other: &Self) -> Self {
        let (began_at_us, other_began_at_us) = (self.began_at_us(), other.began_at_us());
        let (mut previous, mut current) = (0, other.current);
        if other_began_at_us > began_at_us {
            current += other.previous;
        } else if other_began_at_us > began_at_us.saturating_sub(self.window_us()) {
            previous = other.previous;
        }
        Self { previous, current, ..*self }
    }

    /// Returns `amount` tokens consumed at `counted_at_us`. True if they still counted.
    pub(super) fn give_back(&mut self, amount: u64, counted_at_us: u64) -> bool {
        let began_at_us = self.began_at_us();
        let counter = if (began_at_us..self.ends_at_us).contains(&counted_at_us) {
            &mut self.current
        } else if (began_at_us.saturating_sub(self.window_us())..began_at_us).contains(&counted_at_us) {
            &mut self.previous
        } else {
            return false;
        };
        let before = *counter;
        *counter = before.saturating_sub(amount);
        *counter != before
    }

    fn began_at_us(&self) -> u64 {
        self.ends_at_us.saturating_sub(self.window_us())
    }

    pub(super) fn elapsed_us(&self, now_us: u64) -> u64 {
        self.window_us() - (self.ends_at_us - now_us)
    }

    /// Returns the time until no consumed token counts.
    pub(super) fn reset_after_us(&self, now_us: u64) -> u64 {
        if self.count() { self.expires_at_us() - now_us } else { 0 }
    }
}

impl LengthWindow for Windows {
    fn length_us(&self) -> u64 {
        self.window_us()
    }

    fn expires_at_us(&self) -> u64 {
        if self.current > 0 { self.ends_at_us.saturating_add(self.window_us()) } else { self.ends_at_us }
    }
}

impl State for Counters {
    const EMPTY: Self =
        Self(ByLength::One(Windows { ends_at_us: 0, length_us: NonZeroU64::MIN, previous: 0, current: 0 }));

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.0.expires_at_us()
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_one_length_take_32_bytes() {
        assert_eq!(size_of::<Counters>(), 32);
    }
}
