//! State of fixed windows: a window for each length in use.

use std::num::NonZeroU64;

use crate::algorithm::State;
use crate::algorithm::lengths::{ByLength, Counted, LengthWindow, Used};
use crate::rule::MAX_SAFE_INTEGER;

/// Windows of a key: 24 bytes, and a box while rules with several lengths of windows use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows(ByLength<Window>);

/// Latest window of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// End of the window: microseconds.
    pub(super) ends_at_us: u64,
    /// Length of the window, for a calendar of the longest: microseconds.
    pub(super) length_us: NonZeroU64,
    /// Tokens consumed in the window.
    pub(super) used: u64,
}

impl Windows {
    pub(super) fn new(own: Window, others: Vec<Used<Window>>, now_us: u64) -> Self {
        Self(ByLength::new(own, others, now_us))
    }

    /// Returns the windows with `change` applied to each, if any of them changes.
    fn changed(&self, mut change: impl FnMut(&mut Window)) -> Option<Self> {
        let mut changed = self.clone();
        match &mut changed.0 {
            ByLength::One(window) => change(window),
            ByLength::Several(all) => all.iter_mut().for_each(|used| change(&mut used.window)),
        }
        (changed != *self).then_some(changed)
    }

    pub(super) fn is_open(&self, now_us: u64) -> bool {
        now_us < self.expires_at_us()
    }

    /// Returns the windows at `now_us` for a rule whose window would open as `fresh`.
    ///
    /// No window is longer than one that opens now, after a changed alignment or a clock that was set back. If the length
    /// is new to the key, its window begins with the tokens of the open window that has most. Other lengths are kept
    /// while their rules use the key.
    #[inline]
    pub(super) fn at(&self, fresh: Window, now_us: u64) -> Counted<Window> {
        if let ByLength::One(window) = &self.0
            && window.length_us == fresh.length_us
        {
            let is_stale = window.ends_at_us > fresh.ends_at_us;
            let ends_at_us = window.ends_at_us.min(fresh.ends_at_us);
            let own = if now_us < ends_at_us { Window { ends_at_us, ..*window } } else { fresh };
            return Counted { own, others: Vec::new(), is_stale };
        }
        self.at_several(fresh, now_us)
    }

    fn at_several(&self, fresh: Window, now_us: u64) -> Counted<Window> {
        let (mut is_stale, mut most) = (false, None);
        let (own, others) = self.0.split(fresh.length_us.get(), now_us, |mut window| {
            let is_own = window.length_us == fresh.length_us;
            let latest = if is_own { fresh.ends_at_us } else { now_us.saturating_add(window.length_us.get()) };
            if window.ends_at_us > latest {
                (window.ends_at_us, is_stale) = (latest, true);
            }
            if window.is_open(now_us) {
                most = most.max(Some(window.used));
            }
            window
        });
        let Some(most) = most else { return Counted::fresh(fresh) };
        let own = match own {
            Some(own) if own.is_open(now_us) => own,
            Some(_) => fresh,
            None => {
                is_stale |= most > 0;
                Window { used: most, ..fresh }
            }
        };
        Counted { own, others, is_stale }
    }

    /// Returns the windows with `amount` more tokens in each; a window of the length of `fresh` opens as that.
    pub(super) fn take(&self, amount: u64, fresh: Window, now_us: u64) -> Self {
        let taken = self.changed(|window| {
            if !window.is_open(now_us) && window.length_us == fresh.length_us {
                *window = fresh;
            }
            window.take(amount, now_us);
        });
        taken.unwrap_or_else(|| self.clone())
    }

    /// Returns the windows without `amount` tokens that were taken at `counted_at_us`, if any counts them. The windows of
    /// `own`'s length are as long as stated beside it.
    pub(super) fn give_back(&self, amount: u64, counted_at_us: u64, now_us: u64, own: (Window, u64)) -> Option<Self> {
        self.changed(|window| {
            let is_own = window.length_us == own.0.length_us;
            let length_us = if is_own { own.1 } else { window.length_us.get() };
            let began_at_us = window.ends_at_us.saturating_sub(length_us);
            if window.is_open(now_us) && counted_at_us >= began_at_us {
                window.used = window.used.saturating_sub(amount);
            }
        })
    }

    /// Returns the text that lua/fixed_window.lua stores: for each length the tokens consumed in its window, the end, the
    /// length and, if there are several, the last use.
    #[cfg(feature = "redis")]
    pub(crate) fn to_stored(&self) -> String {
        self.0.to_stored(|window| format!("{} {} {}", window.used, window.ends_at_us, window.length_us))
    }

    /// Decodes the result of [`to_stored`](Self::to_stored); `None` if it has another format. Earlier versions stored no
    /// length: it is then `length_us`.
    #[cfg(feature = "redis")]
    pub(crate) fn from_stored(text: &str, length_us: u64) -> Option<Self> {
        let read = |numbers: &[u64]| {
            let (used, ends_at_us, length_us, at_us) = match *numbers {
                [used, ends_at_us] => (used, ends_at_us, length_us, u64::MAX),
                [used, ends_at_us, length_us] => (used, ends_at_us, length_us, u64::MAX),
                [used, ends_at_us, length_us, at_us] => (used, ends_at_us, length_us, at_us),
                _ => return None,
            };
            Some(Used { window: Window { ends_at_us, length_us: NonZeroU64::new(length_us)?, used }, at_us })
        };
        ByLength::from_stored(text, read).map(Self)
    }
}

impl Window {
    /// Returns a window without tokens.
    pub(super) fn opening(ends_at_us: u64, length_us: u64) -> Self {
        Self { ends_at_us, length_us: NonZeroU64::new(length_us).unwrap_or(NonZeroU64::MIN), used: 0 }
    }

    fn is_open(&self, now_us: u64) -> bool {
        now_us < self.ends_at_us
    }

    /// Counts `amount` tokens, in a window that opens now if this one is over.
    fn take(&mut self, amount: u64, now_us: u64) {
        if !self.is_open(now_us) {
            (self.ends_at_us, self.used) = (now_us.saturating_add(self.length_us.get()), 0);
        }
        self.used = self.used.saturating_add(amount).min(MAX_SAFE_INTEGER);
    }
}

impl LengthWindow for Window {
    fn length_us(&self) -> u64 {
        self.length_us.get()
    }

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.ends_at_us
    }
}

impl Used<Window> {
    /// Counts `amount` tokens of a rule with another length.
    pub(super) fn take(&mut self, amount: u64, now_us: u64) {
        if amount > 0 {
            self.window.take(amount, now_us);
        }
    }
}

impl State for Windows {
    const EMPTY: Self = Self(ByLength::One(Window { ends_at_us: 0, length_us: NonZeroU64::MIN, used: 0 }));

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
    fn the_window_of_one_length_takes_24_bytes() {
        assert_eq!(size_of::<Windows>(), 24);
    }
}
