//! State of a key for rules with windows of several kinds: each length, and each way in which windows begin, has a window
//! of its own.

use serde::{Deserialize, Serialize};

use crate::algorithm::Moment;
#[cfg(feature = "redis")]
use crate::rule::MAX_SAFE_INTEGER;

/// Most kinds of windows that count side by side. A further one replaces the one that was used longest ago.
const MAX_LENGTHS: usize = 4;

/// Window of one kind.
pub(super) trait LengthWindow: Copy {
    /// Returns the length in microseconds.
    fn length_us(&self) -> u64;

    /// Returns the number that tells kinds of one length apart.
    fn tag(&self) -> u32 {
        0
    }

    /// Returns the time from which no token counts, in microseconds.
    fn expires_at_us(&self) -> u64;

    /// Returns true if no token counts, and none will after a small step of the clock.
    #[inline]
    fn is_expired(&self, now: Moment) -> bool {
        self.expires_at_us() <= now.now_us
    }

    /// Returns what identifies the kind.
    fn id(&self) -> (u64, u32) {
        (self.length_us(), self.tag())
    }
}

/// Windows of a key by their kind. They take a box while rules with several kinds use the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ByLength<W> {
    One(W),
    Several(Box<[Used<W>]>),
}

/// Window and the time of the last write of a rule with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Used<W> {
    pub(super) window: W,
    pub(super) at_us: u64,
}

/// Windows at one time, for one rule.
pub(super) struct Counted<W> {
    /// Window of the rule's kind.
    pub(super) rule_window: W,
    /// Windows of other kinds that were used lately.
    pub(super) others: Vec<Used<W>>,
    /// True if the state must be written even if nothing is consumed.
    pub(super) is_stale: bool,
}

impl<W> Counted<W> {
    /// Returns the windows of a key without tokens.
    pub(super) fn fresh(rule_window: W) -> Self {
        Self { rule_window, others: Vec::new(), is_stale: false }
    }
}

impl<W: LengthWindow> ByLength<W> {
    pub(super) fn new(rule_window: W, mut others: Vec<Used<W>>, now_us: u64) -> Self {
        if others.is_empty() {
            return Self::One(rule_window);
        }
        while others.len() >= MAX_LENGTHS {
            let first = (0..others.len()).min_by_key(|at| (others[*at].at_us, others[*at].window.id()));
            others.swap_remove(first.unwrap_or(0));
        }
        others.insert(0, Used { window: rule_window, at_us: now_us });
        Self::Several(others.into())
    }

    /// Returns all windows with the time of their last use. A single kind counts as used at `now_us`.
    fn all(&self, now_us: u64) -> impl Iterator<Item = Used<W>> {
        let (one, several) = match self {
            Self::One(window) => (Some(Used { window: *window, at_us: now_us }), &[][..]),
            Self::Several(all) => (None, &**all),
        };
        one.into_iter().chain(several.iter().copied())
    }

    /// Returns the window of the kind of `fresh`, and those of other kinds whose rules use the key, each as `current` returns
    /// it.
    pub(super) fn split(&self, fresh: &W, now_us: u64, mut current: impl FnMut(W) -> W) -> (Option<W>, Vec<Used<W>>) {
        let (mut rule_window, mut others) = (None, Vec::new());
        for Used { window, at_us } in self.all(now_us) {
            let (window, at_us) = (current(window), at_us.min(now_us));
            if window.id() == fresh.id() {
                rule_window = Some(window);
            } else if now_us - at_us < 2 * window.length_us().max(fresh.length_us()) {
                others.push(Used { window, at_us });
            }
        }
        (rule_window, others)
    }

    #[inline]
    pub(super) fn expires_at_us(&self) -> u64 {
        match self {
            Self::One(window) => window.expires_at_us(),
            Self::Several(all) => all.iter().map(|used| used.window.expires_at_us()).max().unwrap_or(0),
        }
    }

    #[inline]
    pub(super) fn is_expired(&self, now: Moment) -> bool {
        match self {
            Self::One(window) => window.is_expired(now),
            Self::Several(all) => all.iter().all(|used| used.window.is_expired(now)),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Several(all) => size_of_val(&**all),
        }
    }

    /// Returns the text that scripts store: for each kind the numbers in `text` and, if there are several, the last use.
    #[cfg(feature = "redis")]
    pub(super) fn to_stored(&self, text: impl Fn(&W) -> String) -> String {
        match self {
            Self::One(window) => text(window),
            Self::Several(all) => {
                all.iter().map(|used| format!("{} {}", text(&used.window), used.at_us)).collect::<Vec<_>>().join(";")
            }
        }
    }

    /// Decodes the result of [`to_stored`](Self::to_stored), of which `read` gets the numbers of one kind. Returns `None`
    /// if it has another format.
    #[cfg(feature = "redis")]
    pub(super) fn from_stored(text: &str, read: impl Fn(&[u64]) -> Option<Used<W>>) -> Option<Self> {
        let safe = |number: &str| number.parse().ok().filter(|number| *number <= MAX_SAFE_INTEGER);
        let used = |part: &str| read(&part.split(' ').map(safe).collect::<Option<Vec<u64>>>()?);
        let all: Vec<Used<W>> = text.split(';').map(used).collect::<Option<_>>()?;
        match all[..] {
            [only] => Some(Self::One(only.window)),
            _ => Some(Self::Several(all.into())),
        }
    }
}
