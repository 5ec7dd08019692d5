//! Filters that limit and count requests.

use crate::concurrency_limiter::{self, ConcurrencyLimiterArgs};
use crate::filters::entry::{Arguments, Entry};
use crate::filters::model::Filter;
use crate::rate_limiter::args::LimiterArgs;
use crate::rate_limiter::check::{EXAMPLE, check};
use crate::request_counter::{self, RequestCounterArgs};
use crate::spec::tree::Shortcut;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "RequestRateLimiter",
        doc: "Limits the rate of requests per key, by one or several rules.",
        args: Arguments::of::<LimiterArgs>(Shortcut::None(EXAMPLE)),
        check: |input, diagnostics| {
            let limiter = check(input.spec, input.shortcut, &input.context.limiters, diagnostics)?;
            Ok(Filter::RequestRateLimiter(Box::new(limiter)))
        },
    },
    Entry {
        name: "RequestCounter",
        doc: "Counts requests per key and limits nothing.",
        args: Arguments::of::<RequestCounterArgs>(Shortcut::None("{key-resolver: ip}")),
        check: |input, diagnostics| {
            let args: RequestCounterArgs = input.read(diagnostics)?;
            let counter = request_counter::check(&args, &input.context.limiters, diagnostics)?;
            Ok(Filter::RequestCounter(Box::new(counter)))
        },
    },
    Entry {
        name: "ConcurrencyLimiter",
        doc: "Limits concurrent requests per key.",
        args: Arguments::of::<ConcurrencyLimiterArgs>(Shortcut::None("{limit: 10, key-resolver: ip}")),
        check: |input, diagnostics| {
            let args: ConcurrencyLimiterArgs = input.read(diagnostics)?;
            let limiter = concurrency_limiter::check(&args, input.spec.span, &input.context.limiters, diagnostics)?;
            Ok(Filter::ConcurrencyLimiter(Box::new(limiter)))
        },
    },
];
