//! `resilience4j`: settings of circuit breakers and time limiters by name. In a Spring file also those of
//! `spring.cloud.circuitbreaker.resilience4j`.

pub(crate) mod breaker;
pub(crate) mod faults;
mod inherit;
#[cfg(test)]
mod tests;
mod time_limiter;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

use crate::de::defaults::Flag;
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::{Diagnostics, Severity, suggest};
use crate::sections::resilience::breaker::{Checked, RawBreakers};
use crate::sections::resilience::inherit::{inherited, resolved};
use crate::sections::resilience::time_limiter::RawTimeLimiters;
use crate::yaml::Span;

/// Circuit breakers and time limiters.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawResilience {
    /// Circuit breakers of `CircuitBreaker` filters.
    pub(crate) circuitbreaker: RawBreakers,
    /// Time limits of their calls.
    pub(crate) timelimiter: RawTimeLimiters,
    /// Disables time limits.
    pub(crate) disable_time_limiter: Flag<false>,
    /// Names of breakers without time limits. Default: none.
    pub(crate) disable_time_limiter_map: BTreeMap<String, bool>,
    // Spring's switch of the filter.
    pub(crate) enabled: Option<Spanned<bool>>,
    pub(crate) reactive: Option<NodeRef>,
    pub(crate) blocking: Option<NodeRef>,
    pub(crate) enable_group_meter_filter: Option<NodeRef>,
    pub(crate) default_group_tag: Option<NodeRef>,
    pub(crate) enable_semaphore_default_bulkhead: Option<NodeRef>,
    pub(crate) disable_thread_pool: Option<NodeRef>,
    pub(crate) bulkhead: Option<NodeRef>,
    pub(crate) thread_pool_bulkhead: Option<NodeRef>,
    pub(crate) ratelimiter: Option<NodeRef>,
    pub(crate) retry: Option<NodeRef>,
    pub(crate) scheduled: Option<NodeRef>,
}

/// resilience4j's default time limit.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Breakers and time limits by name.
#[derive(Debug)]
pub(crate) struct Resilience {
    breakers: BTreeMap<String, Checked>,
    default_breaker: Checked,
    /// `None` if not configured.
    limits: BTreeMap<String, Option<Duration>>,
    default_limit: Option<Duration>,
    is_unlimited: bool,
    unlimited: BTreeMap<String, bool>,
    /// Place of each instance.
    instances: BTreeMap<String, Span>,
}

impl Resilience {
    pub(crate) fn check(raw: &RawResilience, diagnostics: &mut Diagnostics) -> Self {
        without_effect(raw, diagnostics);
        let breakers = &raw.circuitbreaker;
        let mut instances = breakers.backends.clone();
        instances.extend(breakers.instances.clone());
        let places = instances.iter().map(|(name, at)| (name.clone(), at.span.key())).collect();
        let limiters = &raw.timelimiter;
        Self {
            breakers: resolved(&instances, &breakers.configs, diagnostics, breaker::check),
            default_breaker: breaker::check(&inherited("default", &breakers.configs, diagnostics), diagnostics),
            limits: resolved(&limiters.instances, &limiters.configs, diagnostics, time_limiter::check),
            default_limit: time_limiter::check(&inherited("default", &limiters.configs, diagnostics), diagnostics),
            is_unlimited: raw.disable_time_limiter.get(),
            unlimited: raw.disable_time_limiter_map.clone(),
            instances: places,
        }
    }

    /// Returns the settings of the breaker `name`.
    pub(crate) fn breaker(&self, name: &str) -> &Checked {
        self.breakers.get(name).unwrap_or(&self.default_breaker)
    }

    /// Returns the time limit of its calls, and true if it is configured.
    pub(crate) fn time_limit(&self, name: &str) -> (Option<Duration>, bool) {
        if *self.unlimited.get(name).unwrap_or(&self.is_unlimited) {
            return (None, true);
        }
        let said = *self.limits.get(name).unwrap_or(&self.default_limit);
        (Some(said.unwrap_or(TIME_LIMIT)), said.is_some())
    }

    /// Reports instances that no route uses. `used`: names of the routes' breakers.
    pub(crate) fn report_unused(&self, used: &BTreeSet<String>, diagnostics: &mut Diagnostics) {
        let names: Vec<&str> = used.iter().map(String::as_str).collect();
        for (name, at) in self.instances.iter().filter(|(name, _)| !used.contains(*name)) {
            let message = format!("no `CircuitBreaker` has the name `{name}`: these settings have no effect");
            let help =
                if names.is_empty() { "add `CircuitBreaker=…` to a route".to_owned() } else { suggest(name, &names) };
            diagnostics.unused(Severity::Warning, *at, message).help(help);
        }
    }
}

/// Reports sections of resilience4j that have no effect here.
fn without_effect(raw: &RawResilience, diagnostics: &mut Diagnostics) {
    if let Some(Spanned { value: false, span }) = raw.enabled {
        diagnostics
            .mistake(span, "`enabled: false` removes `CircuitBreaker` in Spring; here it is ignored")
            .help("remove it");
    }
    let limiter = "`ConcurrencyLimiter` limits the concurrent requests of a route";
    let (breakers, limiters) = (&raw.circuitbreaker, &raw.timelimiter);
    let java = "it orders Java annotations";
    for (whole, name, why) in [
        (raw.bulkhead, "bulkhead", limiter),
        (raw.thread_pool_bulkhead, "thread-pool-bulkhead", limiter),
        (raw.enable_semaphore_default_bulkhead, "enable-semaphore-default-bulkhead", limiter),
        (raw.disable_thread_pool, "disable-thread-pool", "nothing here runs in a pool of threads"),
        (raw.ratelimiter, "ratelimiter", "`RequestRateLimiter` limits rates"),
        (raw.retry, "retry", "Spring Cloud Gateway does not read it either: the filter `Retry` repeats requests"),
        (raw.scheduled, "scheduled", "the gateway has no scheduler"),
        (raw.reactive, "reactive", "there is one kind of circuit breaker here"),
        (raw.blocking, "blocking", "there is one kind of circuit breaker here"),
        (raw.enable_group_meter_filter, "enable-group-meter-filter", "metrics are labelled with the breaker's name"),
        (raw.default_group_tag, "default-group-tag", "metrics are labelled with the breaker's name"),
        (breakers.circuit_breaker_aspect_order, "circuit-breaker-aspect-order", java),
        (limiters.time_limiter_aspect_order, "time-limiter-aspect-order", java),
        (breakers.metrics, "circuitbreaker.metrics", "metrics are always there"),
        (limiters.metrics, "timelimiter.metrics", "metrics are always there"),
        (breakers.tags, "circuitbreaker.tags", "metrics are labelled with the breaker's name"),
        (limiters.tags, "timelimiter.tags", "metrics are labelled with the breaker's name"),
    ] {
        if let Some(whole) = whole {
            diagnostics.note(whole.0.key(), format!("`{name}` has no effect here")).ineffective().help(why);
        }
    }
}
