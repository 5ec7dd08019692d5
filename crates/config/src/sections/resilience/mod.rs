//! `resilience4j`: settings of circuit breakers and time limiters by name. In a Spring file also those of
//! `spring.cloud.circuitbreaker.resilience4j`.

pub(crate) mod breaker;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::de::{Flag, Or, PositiveTime, Spanned, secs};
use crate::diagnostics::{Diagnostics, Severity};
use crate::sections::resilience::breaker::{Checked, RawBreakers};
use crate::yaml::Span;

/// Returns `own` with the values of these fields in `base` that are absent in it.
macro_rules! completed {
    ($own:ident, $base:ident: $($field:ident)*) => {
        Self { $($field: $own.$field.or($base.$field),)* ..$own }
    };
}
use completed;

/// Circuit breakers and time limiters.
#[section]
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
}

/// Java exceptions that an entry of `configs` names at most.
const MAX_CLASSES: usize = 100;
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
        if let Some(Spanned { value: false, span }) = raw.enabled {
            diagnostics
                .mistake(span, "`enabled: false` removes `CircuitBreaker` in Spring; here it is ignored")
                .help("remove it");
        }
        let breakers = &raw.circuitbreaker;
        let (none, mut configs) = (BTreeMap::new(), &breakers.configs);
        if let Some(config) = configs.values().find(|config| config.exception_count() > MAX_CLASSES) {
            diagnostics
                .error(
                    config.span.key(),
                    format!("{} exceptions, of which each instance has a copy", config.exception_count()),
                )
                .help("an entry of `configs` names at most 100");
            configs = &none;
        }
        let mut instances = breakers.backends.clone();
        instances.extend(breakers.instances.clone());
        let places = instances.iter().map(|(name, at)| (name.clone(), at.span.key())).collect();
        let limiters = &raw.timelimiter;
        Self {
            breakers: resolved(&instances, configs, diagnostics, breaker::check),
            default_breaker: breaker::check(&inherited("default", configs, diagnostics), diagnostics),
            limits: resolved(&limiters.instances, &limiters.configs, diagnostics, time_limit),
            default_limit: time_limit(&inherited("default", &limiters.configs, diagnostics), diagnostics),
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
            let help = diagnostics.unused(Severity::Warning, *at, message);
            match names.is_empty() {
                true => help.help("add `CircuitBreaker=…` to a route"),
                false => help.suggest(name, &names),
            }
        }
    }
}

/// Time limits by the name of the breaker.
#[section]
pub(crate) struct RawTimeLimiters {
    /// Named settings that instances are based on; `default` applies to breakers without settings. Default: none.
    pub(crate) configs: BTreeMap<String, Spanned<RawTimeLimiter>>,
    /// Time limit of each breaker. Default: none.
    pub(crate) instances: BTreeMap<String, Spanned<RawTimeLimiter>>,
}

/// One time limit.
#[section(Clone)]
pub(crate) struct RawTimeLimiter {
    /// Entry of `configs` with the values that are absent here. Default: the entry with the breaker's name, else `default`.
    pub(crate) base_config: Option<Spanned<String>>,
    /// Timeout for the head of the upstream's response.
    pub(crate) timeout_duration: Option<Or<PositiveTime, { secs(1) }>>,
    pub(crate) cancel_running_future: Option<Spanned<bool>>,
}

/// Checks a time limit; `None` if not configured.
fn time_limit(raw: &RawTimeLimiter, diagnostics: &mut Diagnostics) -> Option<Duration> {
    if let Some(Spanned { value: false, span }) = raw.cancel_running_future {
        diagnostics.note(span, "calls past the time limit are always cancelled here");
    }
    raw.timeout_duration.map(Or::get)
}

impl Based for RawTimeLimiter {
    fn base(&self) -> Option<&Spanned<String>> {
        self.base_config.as_ref()
    }

    fn over(self, base: Self) -> Self {
        completed!(self, base: timeout_duration cancel_running_future)
    }
}

/// Settings of one name, possibly based on those of another.
pub(super) trait Based: Clone + Default {
    fn base(&self) -> Option<&Spanned<String>>;
    /// Returns these settings, completed by those of `base`.
    fn over(self, base: Self) -> Self;
}

/// Checks each name of `instances` and `configs` with `check`.
pub(super) fn resolved<T: Based, C>(
    instances: &BTreeMap<String, Spanned<T>>,
    configs: &BTreeMap<String, Spanned<T>>,
    diagnostics: &mut Diagnostics,
    check: impl Fn(&T, &mut Diagnostics) -> C,
) -> BTreeMap<String, C> {
    let mut all = BTreeMap::new();
    for name in configs.keys().chain(instances.keys()) {
        let merged = match instances.get(name) {
            Some(instance) => match instance.value.base() {
                Some(base) => instance.value.clone().over(base_config(base, configs, diagnostics)),
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

/// Returns the entry of `configs` that a `baseConfig` names.
fn base_config<T: Based>(
    base: &Spanned<String>,
    configs: &BTreeMap<String, Spanned<T>>,
    diagnostics: &mut Diagnostics,
) -> T {
    if !configs.contains_key(&base.value) {
        let config_names: Vec<&str> = configs.keys().map(String::as_str).collect();
        let help = diagnostics.error(base.span, format!("`configs` has no `{}`", base.value));
        match config_names.is_empty() {
            true => help.help("write it beside `instances`"),
            false => help.suggest(&base.value, &config_names),
        }
    }
    inherited(&base.value, configs, diagnostics)
}

/// Returns the entry `name` of `configs`, completed by all entries that it is based on.
pub(super) fn inherited<T: Based>(
    name: &str,
    configs: &BTreeMap<String, Spanned<T>>,
    diagnostics: &mut Diagnostics,
) -> T {
    let Some(mut at) = configs.get(name) else { return T::default() };
    let (mut merged, mut seen) = (at.value.clone(), BTreeSet::from([name]));
    while let Some(base) = at.value.base() {
        let Some(next) = configs.get(&base.value) else {
            base_config::<T>(base, configs, diagnostics);
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
