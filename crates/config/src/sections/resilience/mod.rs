//! `resilience4j`: settings of circuit breakers and time limiters by name.
//!
//! Settings of a name come from `instances`, then from the entry of `configs` that its `baseConfig` names (else the one
//! of its own name, else `default`), then from resilience4j's defaults.

mod breaker;
mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, suggest};
use crate::yaml::Span;
pub(crate) use raw::RawResilience;
use raw::{RawBreaker, RawTimeLimiter};

pub(crate) use self::breaker::{Checked, unknown_class};

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

/// Settings of one name, possibly based on those of another.
trait Based: Clone + Default {
    fn base(&self) -> Option<&Spanned<String>>;
    /// These settings, completed by those of `base`.
    fn over(self, base: Self) -> Self;
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
            limits: resolved(&limiters.instances, &limiters.configs, diagnostics, time_limit),
            default_limit: time_limit(&inherited("default", &limiters.configs, diagnostics), diagnostics),
            is_unlimited: raw.disable_time_limiter.unwrap_or(false),
            unlimited: raw.disable_time_limiter_map.clone(),
            instances: places,
        }
    }

    /// Settings of the breaker `name`.
    pub(crate) fn breaker(&self, name: &str) -> &Checked {
        self.breakers.get(name).unwrap_or(&self.default_breaker)
    }

    /// Time limit of its calls, and true if it is configured.
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
            if diagnostics.is_spring {
                // Other parts of a Spring application may use it.
                diagnostics.info(*at, message).ineffective().help(help);
            } else {
                diagnostics.warn(*at, message).help(help);
            }
        }
    }
}

/// Checks each name of `instances` and `configs` with `check`.
fn resolved<T: Based, C>(
    instances: &BTreeMap<String, Spanned<T>>,
    configs: &BTreeMap<String, Spanned<T>>,
    diagnostics: &mut Diagnostics,
    check: impl Fn(&T, &mut Diagnostics) -> C,
) -> BTreeMap<String, C> {
    let mut all = BTreeMap::new();
    for name in configs.keys().chain(instances.keys()) {
        let merged = match instances.get(name) {
            Some(instance) => match instance.value.base() {
                Some(base) => instance.value.clone().over(named(base, configs, diagnostics)),
                None if configs.contains_key(name) => {
                    instance.value.clone().over(inherited(name, configs, diagnostics))
                }
                None => instance.value.clone().over(inherited("default", configs, diagnostics)),
            },
            None => inherited(name, configs, diagnostics),
        };
        all.insert(name.clone(), check(&merged, diagnostics));
    }
    all
}

/// Entry of `configs` that a `baseConfig` names.
fn named<T: Based>(base: &Spanned<String>, configs: &BTreeMap<String, Spanned<T>>, diagnostics: &mut Diagnostics) -> T {
    if !configs.contains_key(&base.value) {
        let known: Vec<&str> = configs.keys().map(String::as_str).collect();
        diagnostics.error(base.span, format!("`configs` has no `{}`", base.value)).help(if known.is_empty() {
            "write it beside `instances`".to_owned()
        } else {
            suggest(&base.value, &known)
        });
    }
    inherited(&base.value, configs, diagnostics)
}

/// Entry `name` of `configs`, completed by all entries that it is based on.
fn inherited<T: Based>(name: &str, configs: &BTreeMap<String, Spanned<T>>, diagnostics: &mut Diagnostics) -> T {
    let Some(mut at) = configs.get(name) else { return T::default() };
    let (mut merged, mut seen) = (at.value.clone(), BTreeSet::from([name]));
    while let Some(base) = at.value.base() {
        let Some(next) = configs.get(&base.value) else {
            named::<T>(base, configs, diagnostics);
            break;
        };
        if !seen.insert(&base.value) {
            diagnostics
                .error(base.span, format!("`{}` is based on itself", base.value))
                .help("remove one `baseConfig`");
            break;
        }
        merged = merged.over(next.value.clone());
        at = next;
    }
    merged
}

fn time_limit(raw: &RawTimeLimiter, diagnostics: &mut Diagnostics) -> Option<Duration> {
    if let Some(Spanned { value: false, span }) = raw.cancel_running_future {
        diagnostics.info(span, "calls past the time limit are always cancelled here");
    }
    let limit = raw.timeout_duration?;
    if limit.value.0.is_zero() {
        diagnostics.error(limit.span, "must be longer than 0").help("`disable-time-limiter: true` allows any time");
    }
    Some(limit.value.0)
}

impl Based for RawTimeLimiter {
    fn base(&self) -> Option<&Spanned<String>> {
        self.base_config.as_ref()
    }

    fn over(self, base: Self) -> Self {
        Self {
            base_config: None,
            timeout_duration: self.timeout_duration.or(base.timeout_duration),
            cancel_running_future: self.cancel_running_future.or(base.cancel_running_future),
            event_consumer_buffer_size: None,
        }
    }
}

impl Based for RawBreaker {
    fn base(&self) -> Option<&Spanned<String>> {
        self.base_config.as_ref()
    }

    fn over(self, base: Self) -> Self {
        breaker::over(self, base)
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
            diagnostics.info(whole.0.key(), format!("`{name}` has no effect here")).ineffective().help(why);
        }
    }
}

#[cfg(test)]
mod tests;
