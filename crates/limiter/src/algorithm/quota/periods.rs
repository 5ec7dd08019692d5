//! State of quotas: a period for each calendar in use.

use std::cmp::Reverse;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::algorithm::{Moment, STEP_BACK_US, State};
use crate::rule::{MAX_SAFE_INTEGER, Quota};

/// Largest absolute value of [`Period::used`].
const MAX_USED: i64 = MAX_SAFE_INTEGER as i64;

/// Periods of a key: 32 bytes, and a box while rules with several calendars use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaState(Kept);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kept {
    One(Period),
    Several(Box<[Period]>),
}

/// Latest period of one calendar in which the quota was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Period {
    /// First use in the period: microseconds. A calendar that was new to the key continues the period of another one.
    pub(super) began_at_us: u64,
    /// End of the period on the wall clock: microseconds; [`u64::MAX`] if there is none.
    pub(super) ends_at_us: u64,
    /// Tokens consumed minus tokens granted.
    pub(super) used: i64,
    /// Calendar of the period: see [`Quota::calendar_id`].
    pub(super) calendar: NonZeroU32,
}

/// Quota at a moment, for one rule.
pub(super) struct Current {
    /// Period of the rule.
    pub(super) rule_period: Period,
    /// Periods of other calendars, some of them ended.
    pub(super) others: Vec<Period>,
    pub(super) origin: PeriodOrigin,
    /// True if the state must be written even if nothing is consumed.
    pub(super) is_stale: bool,
}

/// Origin of the rule's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeriodOrigin {
    /// Found in the state.
    Open,
    /// Begins now: no period is open, or the last one of its calendar has ended.
    Fresh,
    /// Begins with the tokens of another calendar's period, since its own calendar is new to the key.
    New,
}

impl QuotaState {
    /// Creates the state of the rule's period and those of other calendars, of which there must be one at least.
    pub(super) fn new(rule_period: Option<Period>, mut others: Vec<Period>) -> Self {
        while others.len() + usize::from(rule_period.is_some()) > Quota::MAX_CALENDARS {
            let first = (0..others.len()).min_by_key(|at| (others[*at].ends_at_us, others[*at].calendar));
            others.swap_remove(first.unwrap_or(0));
        }
        match (rule_period, &others[..]) {
            (Some(only), []) | (None, &[only]) => Self(Kept::One(only)),
            _ => Self(Kept::Several(rule_period.into_iter().chain(others).collect())),
        }
    }

    fn all(&self) -> &[Period] {
        match &self.0 {
            Kept::One(period) => std::slice::from_ref(period),
            Kept::Several(all) => all,
        }
    }

    /// Returns the quota at `now` for a rule whose period would begin as `fresh`.
    ///
    /// A used period keeps its end, also the next one, which was left before the clock was set back. An end after
    /// `latest_end_us` was written under a clock that was wrong. A calendar that is new to the key begins with the tokens of
    /// the open period that has most.
    pub(super) fn at(&self, fresh: Period, latest_end_us: u64, now: Moment) -> Current {
        let all = self.all().iter().map(|period| Period { began_at_us: period.began_at_us.min(now.now_us), ..*period });
        let open = all.clone().filter(|period| period.is_open(now));
        let Some(most_used) = open.max_by_key(|period| (period.used, Reverse(period.began_at_us))) else {
            return Current::alone(fresh);
        };
        let others: Vec<Period> = all.clone().filter(|period| period.calendar != fresh.calendar).collect();
        match all.clone().find(|period| period.calendar == fresh.calendar) {
            Some(rule_period) if rule_period.is_open(now) => {
                let is_cut = rule_period.used != 0 && latest_end_us < rule_period.ends_at_us;
                let keeps_end = rule_period.used != 0 && !is_cut;
                let ends_at_us = if keeps_end { rule_period.ends_at_us } else { fresh.ends_at_us };
                Current {
                    rule_period: Period { ends_at_us, ..rule_period },
                    others,
                    origin: PeriodOrigin::Open,
                    is_stale: is_cut,
                }
            }
            Some(_) => Current { rule_period: fresh, others, origin: PeriodOrigin::Fresh, is_stale: false },
            None => {
                let rule_period = Period { used: most_used.used, began_at_us: most_used.began_at_us, ..fresh };
                Current { rule_period, others, origin: PeriodOrigin::New, is_stale: rule_period.used != 0 }
            }
        }
    }
}

impl Current {
    /// Returns the quota of a key without an open period.
    pub(super) fn alone(rule_period: Period) -> Self {
        Self { rule_period, others: Vec::new(), origin: PeriodOrigin::Fresh, is_stale: false }
    }
}

impl Period {
    pub(super) fn is_open(&self, now: Moment) -> bool {
        now.wall_us < self.ends_at_us
    }

    /// Counts `more` consumed tokens, or returned ones if it is negative.
    pub(super) fn count(&mut self, more: i64) {
        self.used = self.used.saturating_add(more).clamp(-MAX_USED, MAX_USED);
    }

    pub(super) fn reset_after_us(&self, now: Moment) -> u64 {
        if self.used == 0 || self.ends_at_us == u64::MAX { 0 } else { self.ends_at_us - now.wall_us }
    }
}

impl State for QuotaState {
    const EMPTY: Self = Self(Kept::One(Period { began_at_us: 0, ends_at_us: 0, used: 0, calendar: NonZeroU32::MIN }));

    /// A used quota lasts until its period ends, even if all its tokens were returned or granted: later corrections
    /// belong to it.
    #[inline]
    fn expires_at_us(&self) -> u64 {
        match &self.0 {
            Kept::One(period) => period.ends_at_us,
            Kept::Several(all) => all.iter().map(|period| period.ends_at_us).max().unwrap_or(0),
        }
    }

    /// A period that has ended is kept for a while, since the clock may be set back.
    #[inline]
    fn is_expired(&self, now: Moment) -> bool {
        self.expires_at_us() <= now.wall_us.saturating_sub(STEP_BACK_US)
    }

    fn heap_bytes(&self) -> usize {
        match &self.0 {
            Kept::One(_) => 0,
            Kept::Several(all) => size_of_val(&**all),
        }
    }
}
