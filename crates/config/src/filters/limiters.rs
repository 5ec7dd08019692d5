//! Filters that limit and count requests.

use crate::concurrency_limiter::{self, ConcurrencyLimiterArgs};
use crate::filters::entry::{Arguments, Entry};
use crate::filters::model::Filter;
use crate::rate_limiter::args::LimiterArgs;
use crate::request_counter::{self, RequestCounterArgs};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "RequestRateLimiter",
        doc: "Limits the rate of requests per key, by one or several rules.",
        args: Arguments::LongForm(|generator| generator.subschema_for::<LimiterArgs>()),
        check: |input, diagnostics| {
            let limiter = crate::rate_limiter::check::check(input.spec, &input.context.limiters, diagnostics)?;
            Some(Filter::RequestRateLimiter(Box::new(limiter)))
        },
    },
    Entry {
        name: "RequestCounter",
        doc: "Counts requests per key and limits nothing.",
        args: Arguments::LongForm(|generator| generator.subschema_for::<RequestCounterArgs>()),
        check: |input, diagnostics| {
            let counter = request_counter::check(input.spec, &input.context.limiters, diagnostics)?;
            Some(Filter::RequestCounter(Box::new(counter)))
        },
    },
    Entry {
        name: "ConcurrencyLimiter",
        doc: "Limits concurrent requests per key.",
        args: Arguments::LongForm(|generator| generator.subschema_for::<ConcurrencyLimiterArgs>()),
        check: |input, diagnostics| {
            let limiter = concurrency_limiter::check(input.spec, &input.context.limiters, diagnostics)?;
            Some(Filter::ConcurrencyLimiter(Box::new(limiter)))
        },
    },
];
