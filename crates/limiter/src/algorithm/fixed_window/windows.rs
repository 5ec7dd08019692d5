//! State of fixed windows: a window for each kind in use.

use serde::{Deserialize, Serialize};

use super::kind::{WindowKind, WindowTimes};
use crate::algorithm::lengths::{ByLength, Counted, LengthWindow, Used};
use crate::algorithm::{Moment, State};
use crate::rule::{FixedWindow, MAX_SAFE_INTEGER};

/// Windows of a key: 24 bytes, and a box while rules with several kinds of windows use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows(ByLength<Window>);

/// Latest window of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    /// End of the window on the clock of its kind: microseconds.
    pub(super) ends_at_us: u64,
    pub(super) kind: WindowKind,
    /// Tokens consumed in the window.
    pub(super) used: u64,
}

/// Window of a rule without tokens, as it would open now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) kind: WindowKind,
    pub(super) times: WindowTimes,
    pub(super) now: Moment,
}

impl Windows {
    pub(super) fn new(rule_window: Window, others: Vec<Used<Window>>, now_us: u64) -> Self {
        Self(ByLength::new(rule_window, others, now_us))
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

    pub(super) fn is_open(&self, now: Moment) -> bool {
        match &self.0 {
            ByLength::One(window) => window.is_open(now),
            ByLength::Several(all) => all.iter().any(|used| used.window.is_open(now)),
        }
    }

    /// Returns the windows for a rule whose window would open as `fresh`.
    ///
    /// A window that begins later than now was left before the clock was set back: it counts on. If the kind is new to the
    /// key, its window begins with the tokens of the open window that has most_used. Other kinds are kept while their rules use
    /// the key.
    #[inline]
    pub(super) fn at(&self, fresh: &Opening) -> Counted<Window> {
        if let ByLength::One(window) = &self.0
            && window.kind == fresh.kind
        {
            let (window, is_stale) = window.bounded(fresh);
            let rule_window = if window.is_open(fresh.now) { window } else { fresh.window() };
            return Counted { rule_window, others: Vec::new(), is_stale };
        }
        self.at_several(fresh)
    }

    fn at_several(&self, fresh: &Opening) -> Counted<Window> {
        let (mut is_stale, mut most_used) = (false, None);
        let (rule_window, others) = self.0.split(&fresh.window(), fresh.now.now_us, |window| {
            let bound = match window.kind == fresh.kind {
                true => Some(*fresh),
                false => Opening::of(window.kind, fresh.now),
            };
            let (window, is_cut) = bound.map_or((window, false), |bound| window.bounded(&bound));
            is_stale |= is_cut;
            if window.is_open(fresh.now) {
                most_used = most_used.max(Some(window.used));
            }
            window
        });
        let Some(most_used) = most_used else { return Counted::fresh(fresh.window()) };
        let rule_window = match rule_window {
            Some(rule_window) if rule_window.is_open(fresh.now) => rule_window,
            Some(_) => fresh.window(),
            None => {
                is_stale |= most_used > 0;
                Window { used: most_used, ..fresh.window() }
            }
        };
        Counted { rule_window, others, is_stale }
    }

    /// Returns the windows with `amount` more tokens in each; a window of the kind of `fresh` opens as that.
    pub(super) fn take(&self, amount: u64, fresh: &Opening) -> Self {
        let taken = self.changed(|window| {
            if !window.is_open(fresh.now) && window.kind == fresh.kind {
                *window = fresh.window();
            }
            window.take(amount, fresh.now);
        });
        taken.unwrap_or_else(|| self.clone())
    }

    /// Returns the windows without `amount` tokens that were taken at `counted_at_us` on the steady clock, if any counts
    /// them. Only a rule knows when a window of its calendar began.
    pub(super) fn give_back(&self, amount: u64, counted_at_us: u64, fresh: &Opening) -> Option<Self> {
        self.changed(|window| {
            let began_at_us = match window.kind == fresh.kind {
                true => fresh.began_at_us(window),
                false if window.kind.is_calendar() => return,
                false => window.ends_at_us.saturating_sub(window.kind.length_us()),
            };
            let is_on_wall_clock = window.kind.is_on_wall_clock();
            let counted_at_us = if is_on_wall_clock { fresh.now.wall_at_us(counted_at_us) } else { counted_at_us };
            if window.is_open(fresh.now) && counted_at_us >= began_at_us {
                window.used = window.used.saturating_sub(amount);
            }
        })
    }

    /// Returns the text that lua/fixed_window.lua stores: for each kind the tokens consumed in its window, the end, the
    /// length, the tag and, if there are several, the last use.
    #[cfg(feature = "redis")]
    pub(crate) fn to_stored(&self) -> String {
        self.0.to_stored(|Window { ends_at_us, kind, used }| {
            format!("{used} {ends_at_us} {} {}", kind.length_us(), kind.tag())
        })
    }

    /// Decodes the result of [`to_stored`](Self::to_stored); `None` if it has another format.
    #[cfg(feature = "redis")]
    pub(crate) fn from_stored(text: &str) -> Option<Self> {
        let read = |numbers: &[u64]| {
            let (&[used, ends_at_us, length_us, tag], at_us) = numbers.split_first_chunk()?;
            let kind = WindowKind::from_parts(length_us, u32::try_from(tag).ok()?)?;
            let at_us = at_us.first().copied().unwrap_or(u64::MAX);
            (numbers.len() <= 5).then_some(Used { window: Window { ends_at_us, kind, used }, at_us })
        };
        ByLength::from_stored(text, read).map(Self)
    }

    /// Returns the time until which Redis must keep the windows.
    #[cfg(feature = "redis")]
    pub(crate) fn kept_until_us(&self) -> u64 {
        match &self.0 {
            ByLength::One(window) => window.kept_until_us(),
            ByLength::Several(all) => all.iter().map(|used| used.window.kept_until_us()).max().unwrap_or(0),
        }
    }
}

impl Opening {
    /// Returns the opening of a rule's window at `now`.
    #[inline]
    pub(super) fn of_rule(rule: &FixedWindow, now: Moment) -> Self {
        let kind = WindowKind::of(rule);
        let times = match rule.windows_around(now.wall_us) {
            Some([_, began_at_us, ends_at_us, latest_end_us]) => WindowTimes { began_at_us, ends_at_us, latest_end_us },
            None => kind.times_at(now),
        };
        Self { kind, times, now }
    }

    /// Returns the opening of a kind without a calendar.
    fn of(kind: WindowKind, now: Moment) -> Option<Self> {
        (!kind.is_calendar()).then(|| Self { kind, times: kind.times_at(now), now })
    }

    #[inline]
    pub(super) fn window(&self) -> Window {
        Window { ends_at_us: self.times.ends_at_us, kind: self.kind, used: 0 }
    }

    /// Returns the begin of an open window of this kind. One that ends later was left before the clock was set back, and
    /// begins when the present one ends.
    fn began_at_us(&self, window: &Window) -> u64 {
        match self.kind.is_calendar() {
            true if window.ends_at_us > self.times.ends_at_us => self.times.ends_at_us,
            true => self.times.began_at_us,
            false => window.ends_at_us.saturating_sub(self.kind.length_us()),
        }
    }
}

impl Window {
    #[inline]
    fn is_open(&self, now: Moment) -> bool {
        self.kind.time_us(now) < self.ends_at_us
    }

    /// Returns the time until the end of an open window.
    #[inline]
    pub(super) fn rest_us(&self, now: Moment) -> u64 {
        self.ends_at_us - self.kind.time_us(now)
    }

    /// Returns the window, and true if it ends with `fresh` now, since it was written under a clock that was wrong.
    #[inline]
    fn bounded(self, fresh: &Opening) -> (Self, bool) {
        if self.ends_at_us <= fresh.times.latest_end_us {
            return (self, false);
        }
        (Self { ends_at_us: fresh.times.ends_at_us, ..self }, true)
    }

    /// Counts `amount` tokens. A window that is over opens again, unless only a calendar knows its end.
    pub(super) fn take(&mut self, amount: u64, now: Moment) {
        if !self.is_open(now) {
            let Some(fresh) = Opening::of(self.kind, now) else { return };
            *self = fresh.window();
        }
        self.used = self.used.saturating_add(amount).min(MAX_SAFE_INTEGER);
    }

    #[inline]
    fn kept_until_us(&self) -> u64 {
        self.ends_at_us.saturating_add(self.kind.kept_us())
    }
}

impl LengthWindow for Window {
    fn length_us(&self) -> u64 {
        self.kind.length_us()
    }

    fn tag(&self) -> u32 {
        self.kind.tag()
    }

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.ends_at_us
    }

    #[inline]
    fn is_expired(&self, now: Moment) -> bool {
        self.kept_until_us() <= self.kind.time_us(now)
    }
}

impl State for Windows {
    const EMPTY: Self = Self(ByLength::One(Window { ends_at_us: 0, kind: WindowKind::MIN, used: 0 }));

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.0.expires_at_us()
    }

    #[inline]
    fn is_expired(&self, now: Moment) -> bool {
        self.0.is_expired(now)
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_one_kind_takes_24_bytes() {
        assert_eq!(size_of::<Windows>(), 24);
    }
}
