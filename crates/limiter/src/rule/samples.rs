//! Rules for tests.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::{
    Algorithm, Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, Quota, Refill, Rule, SlidingWindowCounter,
    SlidingWindowLog, TokenBucket,
};

/// Returns rules of all algorithms, one for each form of their settings.
pub(crate) fn samples() -> Vec<Rule> {
    let minute = Duration::from_secs(60);
    let month = || Calendar::new(CalendarUnit::Month, "Europe/Berlin").unwrap();
    let bucket = TokenBucket::new(3, minute, 9).unwrap();
    let rules = vec![
        Rule::TokenBucket(bucket.clone()),
        Rule::Gcra(bucket.clone()),
        Rule::TokenBucket(bucket.clone().with_refill(Refill::Interval).unwrap()),
        Rule::TokenBucket(bucket.with_refill(Refill::Aligned { anchor_us: 7 }).unwrap()),
        FixedWindow::new(5, minute, Align::Clock).unwrap().into(),
        FixedWindow::on_calendar(5, month()).unwrap().into(),
        SlidingWindowLog::new(5, minute).unwrap().into(),
        SlidingWindowCounter::new(5, minute).unwrap().into(),
        LeakyBucket::new(3, minute)
            .unwrap()
            .with_max_wait(minute)
            .unwrap()
            .with_max_queue(9)
            .unwrap()
            .with_warm_up(minute)
            .unwrap()
            .into(),
        Quota::new(5).unwrap().into(),
        Quota::resetting(5, month()).unwrap().into(),
    ];
    for algorithm in Algorithm::ALL {
        assert!(rules.iter().any(|rule| rule.algorithm() == algorithm), "{algorithm:?} has no sample");
    }
    rules
}
