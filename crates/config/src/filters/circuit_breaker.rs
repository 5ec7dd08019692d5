//! `CircuitBreaker`.

use serde::Deserialize;
use tollgate_filters::circuit_breaker;

use crate::de::given::Given;
use crate::diagnostics::Diagnostics;
use crate::filters::context::FilterContext;
use crate::filters::entry::{Arguments, Entry, FilterInput, schema_of};
use crate::filters::forward;
use crate::filters::model::{CircuitBreaker, Filter};
use crate::filters::retry::statuses;
#[cfg(test)]
use crate::spec::schema::arguments;
use crate::spec::types::{BufferSize, Status};
use crate::yaml::Span;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "CircuitBreaker",
    doc: "Stops calling a failing upstream for a cool-down period and sends requests to a fallback instead.",
    args: Arguments::Typed(schema_of!(CircuitBreakerArgs)),
    check,
}];

/// Arguments of `CircuitBreaker`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
#[cfg_attr(test, schemars(transform = arguments))]
struct CircuitBreakerArgs {
    /// Name of the breaker, for its settings under `resilience4j`. Default: the route's id.
    name: Given<String>,
    /// Fallback `forward:/path`, which is routed anew. Default: none; the response is 503 or 504.
    fallback_uri: Given<String>,
    /// Statuses that count as failures. Default: none.
    status_codes: Given<Vec<Given<Status>>>,
    /// Sends an empty 200 if the upstream is unreachable. Default false.
    resume_without_error: Given<bool>,
    /// Bytes of a body that are held in memory for the fallback. Default 64KB.
    max_body_size: Given<BufferSize>,
}

fn check(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let args: CircuitBreakerArgs = input.spec.read(&["name"], diagnostics);
    let fallback = match args.fallback_uri.checked().ok()? {
        None => None,
        Some(uri) => {
            let fallback = forward::fallback(uri.value.trim(), uri.span, diagnostics)?;
            if let Some(path) = &fallback.known {
                input.context.forwards.borrow_mut().push((uri.span, path.to_string()));
            }
            Some(fallback)
        }
    };
    let name = args.name.optional()?.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let default = circuit_breaker::Settings::default();
    let settings = circuit_breaker::Settings {
        failure_statuses: statuses(&args.status_codes)?,
        resume_without_error: args.resume_without_error.or(false)?,
        max_body_bytes: args.max_body_size.or(BufferSize(default.max_body_bytes))?.0,
        ..default
    };
    let rules = circuit_breaker::Rules::default();
    Some(Filter::CircuitBreaker(Box::new(CircuitBreaker { name: name.map(Into::into), rules, settings, fallback })))
}

/// Sets the rules of `filter` on the route `id` from `resilience4j`, if it is a circuit breaker.
pub(crate) fn configure_breaker(
    filter: &mut Filter,
    at: Span,
    id: &str,
    context: &FilterContext<'_>,
    diagnostics: &mut Diagnostics,
) {
    let Filter::CircuitBreaker(breaker) = filter else { return };
    let name = breaker.name.as_deref().unwrap_or(id);
    context.breakers.borrow_mut().insert(name.to_owned());
    let checked = context.resilience.breaker(name);
    let (time_limit, is_chosen) = context.resilience.time_limit(name);
    breaker.rules = checked.rules.clone();
    breaker.settings.recorded = checked.recorded;
    breaker.settings.ignored = checked.ignored;
    breaker.settings.time_limit = time_limit;
    if !is_chosen {
        diagnostics
            .note(at, "responses that take longer than 1s count as failures: the default of resilience4j")
            .help("`resilience4j.timelimiter.configs.default.timeout-duration` sets it for all breakers");
    }
}
