//! Treatment of filters by the simulation.

#![deny(clippy::wildcard_enum_match_arm)]

use tollgate_config::{Filter, PlainFilter, RateLimiter};

/// Treatment of a filter by the simulation.
pub(super) enum Treatment<'f> {
    /// Its rules decide with the keys that the log has.
    Limiter(&'f RateLimiter),
    /// It runs as in the gateway.
    Runs,
    /// It refuses requests by their size. The log tells which ones.
    ChecksSize(&'static str),
    /// It is left out, which the note tells: it decides which requests reach a limiter.
    Noted(&'static str),
    /// It is left out: it changes no verdict.
    LeftOut,
}

impl<'f> Treatment<'f> {
    pub(super) fn of(filter: &'f Filter) -> Self {
        match filter {
            Filter::RequestRateLimiter(limiter) => Self::Limiter(limiter),
            Filter::Edit(_) => Self::Runs,
            Filter::RequestSize(_) => Self::ChecksSize("RequestSize"),
            Filter::LocalResponseCache(_) => {
                Self::Noted("cached responses are not simulated: every request reaches the limiter")
            }
            Filter::Retry(_) => Self::Noted("repeated attempts of `Retry` are not simulated"),
            Filter::CircuitBreaker(_) => Self::Noted("the circuit breaker is taken as closed"),
            Filter::ConcurrencyLimiter(_) => Self::Noted("`ConcurrencyLimiter` is not simulated"),
            Filter::RequestCounter(_) => Self::LeftOut,
            Filter::Plain(filter) => Self::of_plain(filter),
        }
    }

    fn of_plain(filter: &PlainFilter) -> Self {
        match filter {
            PlainFilter::RedirectTo(_) => Self::Runs,
            PlainFilter::RequestHeaderSize(_) => Self::ChecksSize("RequestHeaderSize"),
            PlainFilter::RequireKey(_) => Self::Noted("`RequireToken` is not simulated: the log has no tokens"),
            PlainFilter::ApiKey(_) => Self::Noted("`ApiKey` is not simulated: the log has no keys"),
            PlainFilter::FallbackHeaders(_) | PlainFilter::RemoveJsonAttributes(_) => Self::LeftOut,
            PlainFilter::SecureHeaders(_) | PlainFilter::SetStatus(_) => Self::LeftOut,
        }
    }
}
