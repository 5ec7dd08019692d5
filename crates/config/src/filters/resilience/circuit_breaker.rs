//! `CircuitBreaker` and `FallbackHeaders` as written.

use http::header::HeaderName;
use tollgate_filters::circuit_breaker;
use tollgate_filters::fallback_headers::HeaderNames;

use crate::de::values::{flag, header_name};
use crate::diagnostics::Diagnostics;
use crate::filters::entry::{Call, Settings};
use crate::filters::forward;
use crate::filters::resilience::{Args, kept};
use crate::model::{CircuitBreaker, Filter};
use crate::yaml::Span;

pub(super) fn check(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let args = Args::new(call, 1, diagnostics);
    let failure_statuses = args.statuses("statusCodes", diagnostics);
    let resume_without_error = flag(args.get("resumeWithoutError"), false, diagnostics);
    let max_body_bytes = args.read("maxBodySize", diagnostics, kept);
    let fallback = match args.get("fallbackUri") {
        None => None,
        Some(arg) => {
            let fallback = forward::fallback(arg.value.trim(), arg.span, diagnostics)?;
            if let Some(path) = &fallback.known {
                call.settings.forwards.borrow_mut().push((arg.span, path.to_string()));
            }
            Some(fallback)
        }
    };
    let name = args.get("name").map(|arg| arg.value.trim()).filter(|name| !name.is_empty());
    let default = circuit_breaker::Settings::default();
    let settings = circuit_breaker::Settings {
        failure_statuses: failure_statuses?,
        resume_without_error: resume_without_error?,
        max_body_bytes: max_body_bytes.ok()?.unwrap_or(default.max_body_bytes),
        ..default
    };
    Some(Filter::CircuitBreaker(Box::new(CircuitBreaker {
        name: name.map(Into::into),
        rules: circuit_breaker::Rules::default(),
        settings,
        fallback,
    })))
}

/// Settles which breaker `filter` is on the route `id`, if it is one.
pub(crate) fn bind(filter: &mut Filter, at: Span, id: &str, settings: &Settings<'_>, diagnostics: &mut Diagnostics) {
    let Filter::CircuitBreaker(breaker) = filter else { return };
    let name = breaker.name.as_deref().unwrap_or(id);
    settings.breakers.borrow_mut().insert(name.to_owned());
    let checked = settings.resilience.breaker(name);
    let (time_limit, is_chosen) = settings.resilience.time_limit(name);
    breaker.rules = checked.rules.clone();
    breaker.settings.recorded = checked.recorded;
    breaker.settings.ignored = checked.ignored;
    breaker.settings.time_limit = time_limit;
    if !is_chosen {
        diagnostics
            .info(at, "an upstream that takes longer than 1s to answer counts as failed: resilience4j's default")
            .help("`resilience4j.timelimiter.configs.default.timeout-duration` sets it for all breakers");
    }
}

pub(super) fn fallback_headers(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let args = Args::new(call, 0, diagnostics);
    let mut names = HeaderNames::default();
    let fields: [(&str, &mut HeaderName); 4] = [
        ("executionExceptionTypeHeaderName", &mut names.execution_type),
        ("executionExceptionMessageHeaderName", &mut names.execution_message),
        ("rootCauseExceptionTypeHeaderName", &mut names.root_type),
        ("rootCauseExceptionMessageHeaderName", &mut names.root_message),
    ];
    for (name, field) in fields {
        if let Some(arg) = args.get(name) {
            *field = header_name(&arg.value, arg.span, diagnostics)?;
        }
    }
    Some(Filter::FallbackHeaders(names))
}
