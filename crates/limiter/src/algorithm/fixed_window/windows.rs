//! State of fixed windows: a window for each length in use.

use std::num::NonZeroU64;

use crate::algorithm::State;
use crate::rule::MAX_SAFE_INTEGER;

/// Most lengths of windows that count side by side. A further one replaces the one that was used longest ago.
const MAX_LENGTHS: usize = 4;

/// Windows of a key: 24 bytes, and a box while rules with several lengths of windows use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows(Kept);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    One(Window),
    Several(Box<[Used]>),
}

/// Window and the time of the last write of a rule with its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    window: Window,
    at_us: u64,
}

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

/// Windows at one time, for one rule.
pub(super) struct Counted {
    /// Open window of the rule's length.
    pub(super) own: Window,
    /// Windows of other lengths that were used lately.
    pub(super) others: Vec<Used>,
    /// True if the state must be written even if nothing is consumed.
    pub(super) is_stale: bool,
}

impl Windows {
    pub(super) fn new(own: Window, mut others: Vec<Used>, now_us: u64) -> Self {
        if others.is_empty() {
            return Self(Kept::One(own));
        }
        while others.len() >= MAX_LENGTHS {
            let first = (0..others.len()).min_by_key(|at| (others[*at].at_us, others[*at].window.length_us));
            others.swap_remove(first.unwrap_or(0));
        }
        others.insert(0, Used { window: own, at_us: now_us });
        Self(Kept::Several(others.into()))
    }

    /// Returns all windows with the time of their last use. A single length counts as used at `now_us`.
    fn all(&self, now_us: u64) -> impl Iterator<Item = Used> {
        let (one, several) = match &self.0 {
            Kept::One(window) => (Some(Used { window: *window, at_us: now_us }), &[][..]),
            Kept::Several(all) => (None, &**all),
        };
        one.into_iter().chain(several.iter().copied())
    }

    /// Returns the windows with `change` applied to each, if any of them changes.
    fn changed(&self, mut change: impl FnMut(&mut Window)) -> Option<Self> {
        let mut changed = self.clone();
        match &mut changed.0 {
            Kept::One(window) => change(window),
            Kept::Several(all) => all.iter_mut().for_each(|used| change(&mut used.window)),
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
    pub(super) fn at(&self, fresh: Window, now_us: u64) -> Counted {
        if let Kept::One(window) = &self.0
            && window.length_us == fresh.length_us
        {
            let is_stale = window.ends_at_us > fresh.ends_at_us;
            let ends_at_us = window.ends_at_us.min(fresh.ends_at_us);
            let own = if now_us < ends_at_us { Window { ends_at_us, ..*window } } else { fresh };
            return Counted { own, others: Vec::new(), is_stale };
        }
        self.at_several(fresh, now_us)
    }

    fn at_several(&self, fresh: Window, now_us: u64) -> Counted {
        let (mut own, mut others, mut is_stale, mut most) = (None, Vec::new(), false, None);
        for Used { mut window, at_us } in self.all(now_us) {
            let is_own = window.length_us == fresh.length_us;
            let latest = if is_own { fresh.ends_at_us } else { now_us.saturating_add(window.length_us.get()) };
            if window.ends_at_us > latest {
                (window.ends_at_us, is_stale) = (latest, true);
            }
            if window.is_open(now_us) {
                most = most.max(Some(window.used));
            }
            let at_us = at_us.min(now_us);
            if is_own {
                own = Some(window);
            } else if now_us - at_us < 2 * window.length_us.max(fresh.length_us).get() {
                others.push(Used { window, at_us });
            }
        }
        let Some(most) = most else { return Counted { own: fresh, others: Vec::new(), is_stale: false } };
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
        let text = |window: &Window| format!("{} {} {}", window.used, window.ends_at_us, window.length_us);
        match &self.0 {
            Kept::One(window) => text(window),
            Kept::Several(all) => {
                all.iter().map(|used| format!("{} {}", text(&used.window), used.at_us)).collect::<Vec<_>>().join(";")
            }
        }
    }

    /// Decodes the result of [`to_stored`](Self::to_stored); `None` if it has another format. Earlier versions stored no
    /// length: it is then `length_us`.
    #[cfg(feature = "redis")]
    pub(crate) fn from_stored(text: &str, length_us: u64) -> Option<Self> {
        let safe = |number: &str| number.parse().ok().filter(|number| *number <= MAX_SAFE_INTEGER);
        let used = |part: &str| {
            let numbers: Vec<u64> = part.split(' ').map(safe).collect::<Option<_>>()?;
            let (used, ends_at_us, length_us, at_us) = match numbers[..] {
                [used, ends_at_us] => (used, ends_at_us, length_us, u64::MAX),
                [used, ends_at_us, length_us] => (used, ends_at_us, length_us, u64::MAX),
                [used, ends_at_us, length_us, at_us] => (used, ends_at_us, length_us, at_us),
                _ => return None,
            };
            Some(Used { window: Window { ends_at_us, length_us: NonZeroU64::new(length_us)?, used }, at_us })
        };
        let all: Vec<Used> = text.split(';').map(used).collect::<Option<_>>()?;
        match all[..] {
            [only] => Some(Self(Kept::One(only.window))),
            _ => Some(Self(Kept::Several(all.into()))),
        }
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

impl Used {
    /// Counts `amount` tokens of a rule with another length.
    pub(super) fn take(&mut self, amount: u64, now_us: u64) {
        if amount > 0 {
            self.window.take(amount, now_us);
        }
    }
}

impl State for Windows {
    const EMPTY: Self = Self(Kept::One(Window { ends_at_us: 0, length_us: NonZeroU64::MIN, used: 0 }));

    #[inline]
    fn expires_at_us(&self) -> u64 {
        match &self.0 {
            Kept::One(window) => window.ends_at_us,
            Kept::Several(all) => all.iter().map(|used| used.window.ends_at_us).max().unwrap_or(0),
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
    fn the_window_of_one_length_takes_24_bytes() {
        assert_eq!(size_of::<Windows>(), 24);
    }
}
