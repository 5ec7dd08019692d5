//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11), in the syntax of RFC 9651.
//!
//! | Rule | `q` | `w` | `r` | `t` |
//! |---|---|---|---|---|
//! | bucket | the burst | seconds until an empty bucket is full | whole tokens left | seconds in which the bucket gains `r` tokens; if `r` is 0, seconds until the next token |
//! | window, quota | the limit | length in seconds, if it ends | tokens left | seconds until the full limit is available again; at least those in which the limit gives `r` tokens |
//!
//! `t` is rounded up, so `r/t` exceeds neither the rate of a bucket nor the limit per window (§6: servers cap this ratio).
//! Otherwise, near the end of a window, all clients would send their remaining requests at once.

use std::fmt::Write as _;
use std::ops::Deref;
use std::time::Duration;

use http::HeaderValue;

use tollgate_limiter::rule::{Rule, RuleShape};
use tollgate_limiter::verdict::{Outcome, RuleVerdict};

/// The largest integer of RFC 9651 §3.3.1.
const MAX_INTEGER: u128 = 999_999_999_999_999;

/// Rule as a client sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Gains `rate` tokens every `period_us`, up to `capacity`.
    Refill { rate: u64, period_us: u64, capacity: u64 },
    /// Admits `limit` tokens every `window_us`; 0 for a quota without a reset.
    Window { limit: u64, window_us: u64 },
}

/// Rule as a list item of both fields.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// The name as a string of RFC 9651, quotes included.
    name: Box<str>,
    shape: Shape,
}

impl Shape {
    pub(super) fn of(rule: &Rule) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        match rule.shape() {
            RuleShape::Bucket { rate, period, burst: capacity } | RuleShape::Pace { rate, period, capacity } => {
                Self::Refill { rate, period_us: micros(period), capacity }
            }
            RuleShape::Window { limit, window } => Self::Window { limit, window_us: micros(window) },
            RuleShape::Calendar { limit, calendar } => {
                Self::Window { limit, window_us: micros(calendar.unit().nominal_duration()) }
            }
            RuleShape::Total { limit } => Self::Window { limit, window_us: 0 },
        }
    }

    fn quota(self) -> u64 {
        match self {
            Self::Refill { capacity, .. } => capacity,
            Self::Window { limit, .. } => limit,
        }
    }

    fn window_secs(self) -> u128 {
        match self {
            Self::Refill { rate, period_us, capacity } => refill_secs(capacity, rate, period_us),
            Self::Window { window_us, .. } => secs(window_us.into()),
        }
    }

    /// Returns `t`: the seconds for which the remaining tokens last.
    fn effective_secs(self, rule_verdict: &RuleVerdict) -> u128 {
        match self {
            Self::Refill { rate, period_us, capacity } => match (rule_verdict.remaining, rule_verdict.outcome) {
                (0, Outcome::Denied { retry_after }) => secs_of(retry_after).max(1),
                // The time until the bucket is full, less the time for all tokens but the first.
                (0, _) => {
                    let rest = u128::from(capacity.saturating_sub(1)) * u128::from(period_us) / u128::from(rate);
                    secs(rule_verdict.reset_after.as_micros().saturating_sub(rest)).max(1)
                }
                (left, _) => refill_secs(left, rate, period_us),
            },
            // A quota without a reset has no known end.
            Self::Window { window_us: 0, .. } => 0,
            Self::Window { limit: 0, .. } => secs_of(rule_verdict.reset_after),
            Self::Window { limit, window_us } => {
                refill_secs(rule_verdict.remaining, limit, window_us).max(secs_of(rule_verdict.reset_after))
            }
        }
    }
}

impl Policy {
    pub(super) fn new(name: &str, rule: &Rule) -> Self {
        Self { name: string(name).into(), shape: Shape::of(rule) }
    }

    /// Returns the policy of the same name with another rule.
    #[cold]
    pub(super) fn of_rule(&self, rule: &Rule) -> Self {
        Self { name: self.name.clone(), shape: Shape::of(rule) }
    }

    /// Writes the item of `RateLimit-Policy`.
    fn write_policy(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(out, "{};q={}", self.name, clamp(self.shape.quota().into()));
        match self.shape.window_secs() {
            0 => {}
            window => drop(write!(out, ";w={}", clamp(window))),
        }
    }

    /// Writes the item of `RateLimit`.
    fn write_limit(&self, rule_verdict: &RuleVerdict, out: &mut String) {
        let _ = write!(out, "{};r={}", self.name, clamp(rule_verdict.remaining.into()));
        match self.shape.effective_secs(rule_verdict) {
            0 => {}
            time => drop(write!(out, ";t={}", clamp(time))),
        }
    }
}

/// Returns the value of `RateLimit-Policy`.
pub(super) fn policy_field(policies: impl Iterator<Item = impl Deref<Target = Policy>>) -> Option<HeaderValue> {
    list(policies, |policy, out| policy.write_policy(out))
}

/// Returns the value of `RateLimit`.
pub(super) fn limit_field(
    items: impl Iterator<Item = (impl Deref<Target = Policy>, RuleVerdict)>,
) -> Option<HeaderValue> {
    list(items, |(policy, rule_verdict), out| policy.write_limit(&rule_verdict, out))
}

/// Joins the items with commas (RFC 9651 §4.1.1).
fn list<T>(items: impl Iterator<Item = T>, write: impl Fn(T, &mut String)) -> Option<HeaderValue> {
    let mut out = String::with_capacity(64);
    for item in items {
        if !out.is_empty() {
            out.push_str(", ");
        }
        write(item, &mut out);
    }
    if out.is_empty() { None } else { HeaderValue::try_from(out).ok() }
}

/// Returns `text` as a string of RFC 9651 §3.3.3, which holds printable ASCII only: other bytes are percent-encoded.
fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out.push('"');
    out
}

/// Returns the seconds in which a bucket gains `tokens`, rounded up.
fn refill_secs(tokens: u64, rate: u64, period_us: u64) -> u128 {
    let micros = u128::from(tokens) * u128::from(period_us);
    micros.div_ceil(u128::from(rate.max(1)) * 1_000_000)
}

fn secs(micros: u128) -> u128 {
    micros.div_ceil(1_000_000)
}

fn secs_of(time: Duration) -> u128 {
    secs(time.as_nanos().div_ceil(1000))
}

fn clamp(number: u128) -> u128 {
    number.min(MAX_INTEGER)
}

#[cfg(test)]
mod tests;
