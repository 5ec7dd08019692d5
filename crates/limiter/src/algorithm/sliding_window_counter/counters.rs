//! State of a sliding window that is estimated: counters for each length of a window in use.

use std::num::NonZeroU64;

use crate::algorithm::{Moment, State};

/// Most lengths of windows that count side by side. A further one replaces the one that was used longest ago.
const MAX_LENGTHS: usize = 4;

/// Counters of a key: 32 bytes, and a box while rules with several lengths of windows use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(Kept);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    One(Windows),
    Several(Box<[Used]>),
}

/// Windows and the time of the last write of a rule with their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) windows: Windows,
    at_us: u64,
}

/// Tokens of the current and the previous window of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Counters at one time, for one rule.
pub(super) struct Counted {
    /// Windows of the rule's length.
    pub(super) own: Windows,
    /// Windows of other lengths that were used lately.
    pub(super) others: Vec<Used>,
    /// True if the state must be written even if nothing is consumed.
    pub(super) is_stale: bool,
}

impl Counters {
    pub(super) fn new(own: Windows, mut others: Vec<Used>, now_us: u64) -> Self {
        if others.is_empty() {
            return Self(Kept::One(own));
        }
        while others.len() >= MAX_LENGTHS {
            let first = (0..others.len()).min_by_key(|at| (others[*at].at_us, others[*at].windows.length_us));
            others.swap_remove(first.unwrap_or(0));
        }
        others.insert(0, Used { windows: own, at_us: now_us });
        Self(Kept::Several(others.into()))
    }

    /// Returns all windows with the time of their last use. A single length counts as used at `now_us`.
    fn all(&self, now_us: u64) -> impl Iterator<Item = Used> {
        let (one, several) = match &self.0 {
            Kept::One(windows) => (Some(Used { windows: *windows, at_us: now_us }), &[][..]),
            Kept::Several(all) => (None, &**all),
        };
        one.into_iter().chain(several.iter().copied())
    }

    /// Returns the counters at `now` for a rule whose window without tokens is `fresh`.
    ///
    /// If the clock was set back, tokens of windows in the future count as consumed now. If the length is new to the key,
    /// the counters of the longest window are used: each token counts as consumed at the latest time that they allow.
    /// Other lengths are kept while their rules use the key.
    pub(super) fn at(&self, fresh: Windows, now: Moment) -> Counted {
        let (mut own, mut others, mut is_stale, mut longest) = (None, Vec::new(), false, None::<Windows>);
        for Used { windows, at_us } in self.all(now.now_us) {
            let (windows, was_set_back) = windows.moved_on(now);
            is_stale |= was_set_back;
            if windows.count() && longest.is_none_or(|longest| longest.length_us < windows.length_us) {
                longest = Some(windows);
            }
            let at_us = at_us.min(now.now_us);
            if windows.length_us == fresh.length_us {
                own = Some(windows);
            } else if now.now_us - at_us < 2 * windows.window_us().max(fresh.window_us()) {
                others.push(Used { windows, at_us });
            }
        }
        let Some(longest) = longest else { return Counted { own: fresh, others: Vec::new(), is_stale: false } };
        let own = own.map_or_else(
            || {
                let own = fresh.estimated_from(&longest);
                is_stale |= own.count();
                own
            },
            // Windows without tokens begin on the clock.
            |own| if own.count() { own } else { fresh },
        );
        Counted { own, others, is_stale }
    }

    /// Returns the text that lua/sliding_window_counter.lua stores: for each length the start of the current window, the
    /// tokens consumed in the previous and in the current window, the length and, if there are several, the last use.
    #[cfg(feature = "redis")]
    pub(crate) fn to_stored(&self) -> String {
        let text = |windows: &Windows| {
            format!("{} {} {} {}", windows.began_at_us(), windows.previous, windows.current, windows.length_us)
        };
        match &self.0 {
            Kept::One(windows) => text(windows),
            Kept::Several(all) => {
                all.iter().map(|used| format!("{} {}", text(&used.windows), used.at_us)).collect::<Vec<_>>().join(";")
            }
        }
    }

    /// Decodes the result of [`to_stored`](Self::to_stored); `None` if it has another format.
    #[cfg(feature = "redis")]
    pub(crate) fn from_stored(text: &str) -> Option<Self> {
        let safe = |number: &str| number.parse().ok().filter(|number| *number <= crate::rule::MAX_SAFE_INTEGER);
        let used = |part: &str| {
            let numbers: Vec<u64> = part.split(' ').map(safe).collect::<Option<_>>()?;
            let (start_us, previous, current, window_us, at_us) = match numbers[..] {
                [start_us, previous, current, window_us] => (start_us, previous, current, window_us, u64::MAX),
                [start_us, previous, current, window_us, at_us] => (start_us, previous, current, window_us, at_us),
                _ => return None,
            };
            let length_us = NonZeroU64::new(window_us)?;
            let windows = Windows { ends_at_us: start_us.saturating_add(window_us), length_us, previous, current };
            Some(Used { windows, at_us })
        };
        let all: Vec<Used> = text.split(';').map(used).collect::<Option<_>>()?;
        match all[..] {
            [only] => Some(Self(Kept::One(only.windows))),
            _ => Some(Self(Kept::Several(all.into()))),
        }
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
        if now_us < self.began_at_us() && self.count() {
            let ends_at_us = now_us.saturating_add(window_us - now.wall_us % window_us);
            (Self { ends_at_us, previous: 0, current: previous + current, ..*self }, true)
        } else if now_us < ends_at_us {
            (*self, false)
        } else if now_us < next_ends_at_us {
            (Self { ends_at_us: next_ends_at_us, previous: current, current: 0, ..*self }, false)
        } else {
            (Self { previous: 0, current: 0, ..*self }, false)
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

    fn expires_at_us(&self) -> u64 {
        if self.current > 0 { self.ends_at_us.saturating_add(self.window_us()) } else { self.ends_at_us }
    }

    /// Returns the time until no consumed token counts.
    pub(super) fn reset_after_us(&self, now_us: u64) -> u64 {
        if self.count() { self.expires_at_us() - now_us } else { 0 }
    }
}

impl State for Counters {
    const EMPTY: Self = Self(Kept::One(Windows { ends_at_us: 0, length_us: NonZeroU64::MIN, previous: 0, current: 0 }));

    #[inline]
    fn expires_at_us(&self) -> u64 {
        match &self.0 {
            Kept::One(windows) => windows.expires_at_us(),
            Kept::Several(all) => all.iter().map(|used| used.windows.expires_at_us()).max().unwrap_or(0),
        }
    }

    fn heap_bytes(&self) -> usize {
        match &self.0 {
            Kept::One(_) => 0,
            Kept::Several(all) => size_of_val(&**all),
        }
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
