//! Filters that limit and count requests.

use crate::concurrency_limiter;
#[cfg(test)]
use crate::concurrency_limiter::ConcurrencyLimiterArgs;
use crate::filters::entry::{Arguments, Entry, schema_of};
use crate::filters::model::Filter;
#[cfg(test)]
use crate::rate_limiter::args::LimiterArgs;
use crate::request_counter;
#[cfg(test)]
use crate::request_counter::RequestCounterArgs;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "RequestRateLimiter",
        doc: "Limits the rate of requests per key, by one or several rules.",
        args: Arguments::LongForm(schema_of!(LimiterArgs)),
        check: |input, diagnostics| {
            let limiter = crate::rate_limiter::check::check(input.spec, &input.context.limiters, diagnostics)?;
            Some(Filter::RequestRateLimiter(Box::new(limiter)))
        },
    },
    Entry {
        name: "RequestCounter",
        doc: "Counts requests per key and limits nothing.",
        args: Arguments::LongForm(schema_of!(RequestCounterArgs)),
        check: |input, diagnostics| {
            let counter = request_counter::check(input.spec, &input.context.limiters, diagnostics)?;
            Some(Filter::RequestCounter(Box::new(counter)))
        },
    },
    Entry {
        name: "ConcurrencyLimiter",
        doc: "Limits concurrent requests per key.",
        args: Arguments::LongForm(schema_of!(ConcurrencyLimiterArgs)),
        check: |input, diagnostics| {
            let limiter = concurrency_limiter::check(input.spec, &input.context.limiters, diagnostics)?;
            Some(Filter::ConcurrencyLimiter(Box::new(limiter)))
        },
    },
];
