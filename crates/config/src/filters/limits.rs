//! Filters that limit and count, whose arguments have rooms of their own.

use super::super::model::Filter;
use super::super::{check_concurrency, check_request_counter, limiter};
use super::Entry;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "RequestRateLimiter",
        doc: "Holds each key to one or several rules.",
        args: &[],
        check: |call, sink| {
            let limiter = limiter::check(call.written, &call.settings.limits, sink)?;
            Some(Filter::RequestRateLimiter(Box::new(limiter)))
        },
    },
    Entry {
        name: "RequestCounter",
        doc: "Counts use by key, and limits nothing.",
        args: &[],
        check: |call, sink| {
            let counter = check_request_counter::check(call.written, &call.settings.limits, sink)?;
            Some(Filter::RequestCounter(Box::new(counter)))
        },
    },
    Entry {
        name: "ConcurrencyLimiter",
        doc: "Holds each key to so many requests at once.",
        args: &[],
        check: |call, sink| {
            let limiter = check_concurrency::check(call.written, &call.settings.limits, sink)?;
            Some(Filter::ConcurrencyLimiter(Box::new(limiter)))
        },
    },
];
