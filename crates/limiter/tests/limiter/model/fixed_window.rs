//! Model of the fixed window: the tokens consumed in the open window of each kind.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_limiter::rule::{Align, Calendar, CalendarUnit, FixedWindow, Rule};

use super::definition::Model;
use super::quota::{length_of, over_at};
use super::rng::Rng;

/// Latest window of each kind. Each kind counts all tokens.
#[derive(Clone, Default)]
struct Kinds(BTreeMap<Kind, Opened>);

/// Length of a window, and how it begins: with a request (0), on the clock (1), or on a calendar.
type Kind = (u64, u32);

/// Window: its end and the consumed tokens.
#[derive(Clone, Copy, Default)]
struct Opened {
    until: u64,
    taken: u64,
    /// Last write of a rule with this kind, if there are several kinds.
    used: Option<u64>,
}

/// Most kinds that count side by side.
const MAX_KINDS: usize = 4;

const MINUTE: u64 = 60_000_000;

/// Calendars with periods of a fixed length, in zones without clock changes.
pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let limit = rng.pick(&[0, 1, 2, 3, 5, 10, 20, 1_000_000]);
    if rng.chance(1, 4) {
        let unit = rng.pick(&[CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week]);
        let calendar = Calendar::new(unit, rng.pick(&["UTC", "Asia/Kolkata"])).unwrap();
        return Rule::FixedWindow(FixedWindow::on_calendar(limit, calendar).unwrap());
    }
    let window = rng.pick(&[1, 999, 1_000, 100_000, 1_000_000, 7_000_000, 60_000_000, 3_600_000_000, 86_400_000_000]);
    let align = rng.pick(&[Align::First, Align::Clock]);
    Rule::FixedWindow(FixedWindow::new(limit, Duration::from_micros(window), align).unwrap())
}

/// Returns the limit times the windows that a stretch of time can touch.
pub(crate) fn bound(rule: &Rule, time: u64) -> u128 {
    let fixed = of(rule);
    let length = fixed.calendar().map_or(kind(rule).0, length_of);
    u128::from(fixed.limit()) * u128::from(time.div_ceil(length) + 1)
}

pub(crate) fn key() -> Box<dyn Model> {
    Box::new(Kinds::default())
}

fn of(rule: &Rule) -> &FixedWindow {
    let Rule::FixedWindow(rule) = rule else { panic!("{rule:?}") };
    rule
}

fn kind(rule: &Rule) -> Kind {
    let rule = of(rule);
    let tag = rule.calendar().map_or(u32::from(rule.align() == Align::Clock), |calendar| calendar.id().get());
    (rule.window().as_micros() as u64, tag)
}

/// Returns the end of a window that opens now; `None` for a calendar.
fn opens_until((length, tag): Kind, now: u64) -> Option<u64> {
    match tag {
        0 => Some(now + length),
        1 => Some((now / length + 1) * length),
        _ => None,
    }
}

/// Returns the end of the rule's window that opens now, and the length of that window.
fn own_window(rule: &Rule, now: u64) -> (u64, u64) {
    match of(rule).calendar() {
        Some(calendar) => (over_at(calendar, now), length_of(calendar)),
        None => (opens_until(kind(rule), now).unwrap(), kind(rule).0),
    }
}

/// Returns the latest end of a window of one kind: later ones were written under a wrong clock.
fn latest(rule: &Rule, of_kind: Kind, now: u64) -> u64 {
    match (of_kind, opens_until(of_kind, now)) {
        (_, None) if of_kind == kind(rule) => own_window(rule, now).0 + own_window(rule, now).1,
        (_, None) => u64::MAX,
        ((_, 0), Some(until)) => until,
        ((length, _), Some(until)) => until + length.max(MINUTE),
    }
}

impl Kinds {
    fn is_open(&self, now: u64) -> bool {
        self.0.values().any(|window| now < window.until)
    }

    /// Returns the windows of all used kinds at `now`, with an open one of `rule`. A new kind begins with the tokens of the
    /// open window that has most. If none is open, there is only the window of `rule`.
    fn at(&self, rule: &Rule, now: u64) -> Self {
        let own = kind(rule);
        let fresh = Opened { until: own_window(rule, now).0, taken: 0, used: Some(now) };
        if !self.is_open(now) {
            return Self([(own, fresh)].into());
        }
        let open = self.0.values().filter(|window| now < window.until);
        let most = open.map(|window| window.taken).max().unwrap_or(0);
        let mut all = BTreeMap::new();
        for (&kind, window) in &self.0 {
            let is_cut = window.until > latest(rule, kind, now);
            let cut = if kind == own { fresh.until } else { opens_until(kind, now).unwrap_or(0) };
            let until = if is_cut { cut } else { window.until };
            let used = window.used.unwrap_or(now).min(now);
            if kind == own || now - used < 2 * own.0.max(kind.0) {
                all.insert(kind, Opened { until, used: Some(used), ..*window });
            }
        }
        let mine = match all.get(&own) {
            Some(window) if now < window.until => *window,
            Some(_) => fresh,
            None => Opened { taken: most, ..fresh },
        };
        all.insert(own, mine);
        Self(all)
    }

    /// Replaces the state by `new`. At most [`MAX_KINDS`] kinds stay: that of the rule, and those used last.
    fn write(&mut self, rule: &Rule, now: u64, mut new: Self) {
        let own = kind(rule);
        while new.0.len() > MAX_KINDS {
            let others = new.0.iter().filter(|(kind, _)| **kind != own);
            let first = others.map(|(kind, window)| (window.used, *kind)).min();
            new.0.remove(&first.unwrap().1);
        }
        let several = new.0.len() > 1;
        if let Some(mine) = new.0.get_mut(&own) {
            mine.used = several.then_some(now);
        }
        *self = new;
    }

    fn own(&self, rule: &Rule, now: u64) -> Opened {
        self.at(rule, now).0[&kind(rule)]
    }
}

/// Counts `cost` tokens. A window that is over opens again, except that of another calendar.
fn count(windows: &mut BTreeMap<Kind, Opened>, now: u64, cost: u64) {
    for (kind, window) in windows {
        if now >= window.until {
            let Some(until) = opens_until(*kind, now) else { continue };
            *window = Opened { until, taken: 0, ..*window };
        }
        window.taken += cost;
    }
}

impl Model for Kinds {
    /// Windows written under a wrong clock end earlier, and a new kind begins with tokens.
    fn seen(&mut self, rule: &Rule, now: u64) {
        let moved = self.at(rule, now);
        let is_cut = self.0.iter().any(|(kind, window)| window.until > latest(rule, *kind, now));
        let is_new = !self.0.contains_key(&kind(rule)) && moved.own(rule, now).taken > 0;
        if is_cut || is_new {
            self.write(rule, now, moved);
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        of(rule).limit().saturating_sub(self.own(rule, now).taken)
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            let mut moved = self.at(rule, now);
            count(&mut moved.0, now, cost);
            self.write(rule, now, moved);
        }
    }

    /// The rule may be an earlier one: its correction adds no kind and ends no window earlier. Nothing is returned to
    /// another calendar.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let (amount, own, (until, length)) = (more.unsigned_abs(), kind(rule), own_window(rule, now));
        if more > 0 && !self.is_open(now) {
            self.take(rule, now, amount.min(of(rule).limit()));
        } else if more > 0 {
            let takes = amount.min(self.left(rule, now));
            if let Some(window) = self.0.get_mut(&own).filter(|window| takes > 0 && now >= window.until) {
                *window = Opened { until, taken: 0, ..*window };
            }
            if takes > 0 {
                count(&mut self.0, now, takes);
            }
        } else {
            for (kind, window) in &mut self.0 {
                let began = match opens_until(*kind, now) {
                    Some(_) => window.until.saturating_sub(kind.0),
                    None if *kind != own => continue,
                    // The next window was left before the clock was set back.
                    None if window.until > until => until,
                    None => until - length,
                };
                if now < window.until && taken_at >= began {
                    window.taken = window.taken.saturating_sub(amount);
                }
            }
        }
    }

    /// A correction leaves the ends of the windows.
    fn corrected(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        self.settle(rule, now, more, taken_at);
    }

    fn spent_until(&self, rule: &Rule) -> u64 {
        self.0.get(&kind(rule)).filter(|window| window.taken > 0).map_or(0, |window| window.until)
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        self.0.values().map(|window| window.until).max().unwrap_or(0)
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
