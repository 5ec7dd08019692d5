//! Rules in words.

use tollgate_limiter::rule::Rule;

/// Describes a rule in a few words.
pub fn describe(rule: &Rule) -> String {
    let name = rule.algorithm().as_str();
    match rule {
        Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => {
            format!("{name}, {} per {:?}, burst {}", bucket.replenish_rate(), bucket.period(), bucket.burst_capacity())
        }
        Rule::FixedWindow(window) => match window.calendar() {
            Some(calendar) => {
                format!("{name}, {} per {:?} of {}", window.limit(), calendar.unit(), calendar.time_zone())
            }
            None => format!("{name}, {} per {:?}", window.limit(), window.window()),
        },
        Rule::SlidingWindowLog(window) => format!("{name}, {} per {:?}", window.limit(), window.window()),
        Rule::SlidingWindowCounter(window) => format!("{name}, {} per {:?}", window.limit(), window.window()),
        Rule::LeakyBucket(bucket) => format!("{name}, {} per {:?}, paced", bucket.rate(), bucket.period()),
        Rule::Quota(quota) => match quota.reset() {
            Some(calendar) => {
                format!("{name}, {} per {:?} of {}", quota.allowance(), calendar.unit(), calendar.time_zone())
            }
            None => format!("{name}, {} in total", quota.allowance()),
        },
    }
}
