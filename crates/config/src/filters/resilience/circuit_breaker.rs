//! `CircuitBreaker` and `FallbackHeaders` as written.

use http::header::HeaderName;
use tollgate_filters::circuit_breaker;
use tollgate_filters::fallback_headers::HeaderNames;

use super::super::super::forward;
use super::super::super::model::{CircuitBreaker, Filter};
use super::super::super::problem::Sink;
use super::super::super::values::{flag, header_name};
use super::super::super::yaml::Origin;
use super::super::{Call, Settings};
use super::{Args, kept};

pub(super) fn check(call: &Call<'_>, sink: &mut Sink) -> Option<Filter> {
    let args = Args::new(call, 1, sink);
    let failure_statuses = args.statuses("statusCodes", sink);
    let resume_without_error = flag(args.get("resumeWithoutError"), false, sink);
    let max_body_bytes = args.read("maxBodySize", sink, kept);
    let fallback = match args.get("fallbackUri") {
        None => None,
        Some(arg) => {
            let fallback = forward::fallback(arg.value.trim(), arg.origin, sink)?;
            if let Some(path) = &fallback.known {
                call.settings.forwards.borrow_mut().push((arg.origin, path.to_string()));
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
pub(crate) fn bind(filter: &mut Filter, at: Origin, id: &str, settings: &Settings<'_>, sink: &mut Sink) {
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
        sink.info(at, "an upstream that takes longer than 1s to answer counts as failed: resilience4j's default")
            .help("`resilience4j.timelimiter.configs.default.timeout-duration` sets it for all breakers");
    }
}

pub(super) fn fallback_headers(call: &Call<'_>, sink: &mut Sink) -> Option<Filter> {
    let args = Args::new(call, 0, sink);
    let mut names = HeaderNames::default();
    let fields: [(&str, &mut HeaderName); 4] = [
        ("executionExceptionTypeHeaderName", &mut names.execution_type),
        ("executionExceptionMessageHeaderName", &mut names.execution_message),
        ("rootCauseExceptionTypeHeaderName", &mut names.root_type),
        ("rootCauseExceptionMessageHeaderName", &mut names.root_message),
    ];
    for (name, field) in fields {
        if let Some(arg) = args.get(name) {
            *field = header_name(&arg.value, arg.origin, sink)?;
        }
    }
    Some(Filter::FallbackHeaders(names))
}
