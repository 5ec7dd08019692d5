//! Filters that limit and count, whose arguments have rooms of their own.

use crate::model::Filter;

use crate::filters::entry::Entry;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "RequestRateLimiter",
        doc: "Holds each key to one or several rules.",
        args: &[],
        check: |call, diagnostics| {
            let limiter = crate::rate_limiter::check(call.written, &call.settings.limits, diagnostics)?;
            Some(Filter::RequestRateLimiter(Box::new(limiter)))
        },
    },
    Entry {
        name: "RequestCounter",
        doc: "Counts use by key, and limits nothing.",
        args: &[],
        check: |call, diagnostics| {
            let counter = crate::request_counter::check(call.written, &call.settings.limits, diagnostics)?;
            Some(Filter::RequestCounter(Box::new(counter)))
        },
    },
    Entry {
        name: "ConcurrencyLimiter",
        doc: "Holds each key to so many requests at once.",
        args: &[],
        check: |call, diagnostics| {
            let limiter = crate::concurrency_limiter::check(call.written, &call.settings.limits, diagnostics)?;
            Some(Filter::ConcurrencyLimiter(Box::new(limiter)))
        },
    },
];
