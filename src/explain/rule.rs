//! Rules in words.

use std::time::Duration;

use tollgate_limiter::rule::{Refill, Rule, RuleShape};

/// Describes a rule in a few words.
pub fn describe(rule: &Rule) -> String {
    let name = rule.algorithm().as_str();
    match rule.shape() {
        RuleShape::Bucket { rate, period, burst } => {
            format!("{name}, {rate} per {}, burst {burst}{}", exact(period), refill(rule))
        }
        RuleShape::Pace { rate, period, .. } => format!("{name}, {rate} per {}, paced", exact(period)),
        RuleShape::Window { limit, window } => format!("{name}, {limit} per {}", exact(window)),
        RuleShape::Calendar { limit, calendar } => {
            format!("{name}, {limit} per {:?} of {}", calendar.unit(), calendar.time_zone())
        }
        RuleShape::Total { limit } => format!("{name}, {limit} in total"),
    }
}

/// Describes the refill of a bucket in steps.
fn refill(rule: &Rule) -> &'static str {
    let (Rule::TokenBucket(bucket) | Rule::Gcra(bucket)) = rule else { return "" };
    match bucket.refill() {
        Refill::Smooth => "",
        Refill::Interval => ", refill interval",
        Refill::Aligned { .. } => ", refill aligned",
    }
}

/// Returns a duration in the form of the configuration, in the largest unit in which it is a whole number.
fn exact(duration: Duration) -> String {
    let secs = duration.as_secs();
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    match units.iter().find(|(unit, _)| secs.is_multiple_of(*unit) && secs > 0) {
        Some((unit, name)) if duration.subsec_nanos() == 0 => format!("{}{name}", secs / unit),
        _ => format!("{duration:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_largest_exact_unit() {
        let of = |ms| exact(Duration::from_millis(ms));
        let shown = [0, 1500, 1000, 60_000, 90_000, 60_500, 3_600_000, 86_400_000, 90_000_000].map(of);
        assert_eq!(shown, ["0ns", "1.5s", "1s", "1m", "90s", "60.5s", "1h", "1d", "25h"]);
    }
}
