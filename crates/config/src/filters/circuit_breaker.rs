//! `CircuitBreaker`.

use tollgate_filters::circuit_breaker;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::forward;
use crate::filters::model::{CircuitBreaker, Filter};
use crate::filters::row::{Arguments, Entry, FilterContext, FilterInput};
use crate::spec::{BufferSize, Shortcut, Status};
use crate::yaml::Span;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "CircuitBreaker",
    doc: "Stops calling a failing upstream for a cool-down period and sends requests to a fallback instead.",
    args: Arguments::of::<CircuitBreakerArgs>(Shortcut::Some(&["name"])),
    check,
}];

/// Arguments of `CircuitBreaker`.
#[arguments]
struct CircuitBreakerArgs {
    /// Name of the breaker, for its settings under `resilience4j`. Default: the route's id.
    name: Option<String>,
    /// Fallback `forward:/path`, which is routed anew. Default: none; the response is 503 or 504.
    fallback_uri: Option<Spanned<String>>,
    /// Statuses that count as failures. Default: none.
    #[serde(default)]
    status_codes: Vec<Status>,
    /// Sends an empty 200 if the upstream is unreachable. Default false.
    resume_without_error: Option<bool>,
    /// Bytes of a body that are held in memory for the fallback. Default 64KB.
    max_body_size: Option<BufferSize>,
}

fn check(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: CircuitBreakerArgs = input.read(diagnostics)?;
    let fallback = match args.fallback_uri {
        None => None,
        Some(uri) => {
            let fallback = forward::fallback(uri.value.trim(), uri.span, diagnostics)?;
            if let Some(path) = &fallback.fixed_path {
                input.context.forwards.borrow_mut().push((uri.span, path.to_string()));
            }
            Some(fallback)
        }
    };
    let name = args.name.as_deref().map(str::trim).filter(|name| !name.is_empty()).map(Into::into);
    let default = circuit_breaker::Settings::default();
    let settings = circuit_breaker::Settings {
        failure_statuses: args.status_codes.into_iter().map(|status| status.0).collect(),
        resume_without_error: args.resume_without_error.unwrap_or(false),
        max_body_bytes: args.max_body_size.map_or(default.max_body_bytes, |size| size.0),
        ..default
    };
    let rules = circuit_breaker::Rules::default();
    Ok(Filter::CircuitBreaker(Box::new(CircuitBreaker { name, rules, settings, fallback })))
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
