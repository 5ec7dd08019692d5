//! `CircuitBreaker`, and `forward:/path`: a request that is routed again within the gateway.

use std::sync::Arc;

use crate::de::{Flag, Spanned};
use crate::diagnostics::{Diagnostics, Reported, reasons};
use crate::filters::model::{CircuitBreaker, Filter, Forward};
use crate::filters::row::{Arguments, Entry, FilterContext, FilterInput};
use crate::spec::{BufferSize, Shortcut, Status};
use crate::yaml::Span;
use tollgate_filters::circuit_breaker;
use tollgate_filters::edit::Edit;
use tollgate_routing::normalize;

/// Returns the path of a route's target `forward:/path`. Reports errors.
pub(crate) fn forward_target(text: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<Arc<str>, Reported> {
    let (path, query) = path_and_query(text, at, diagnostics)?;
    if query.is_some() {
        diagnostics.warn(at, "the query of `uri` is ignored: requests keep their own, as in Spring").help("remove it");
    }
    normalized(path, at, diagnostics).map(Into::into)
}

/// Returns the fallback of a circuit breaker. Reports errors.
fn fallback(text: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<Forward, Reported> {
    if !text.starts_with("forward:") {
        let error = diagnostics.error(at, format!("fallback must be `forward:/path`, found `{text}`"));
        return Err(
            error.reported_with("write `fallbackUri: forward:/path`, and add a route from that path to the server")
        );
    }
    let (path, query) = path_and_query(text, at, diagnostics)?;
    let fixed_path = if path.contains('{') { None } else { Some(normalized(path, at, diagnostics)?.into()) };
    let path = Edit::set_path(path).map_err(|error| diagnostics.error(at, reasons(&error)).reported())?;
    Ok(Forward { path, query: query.map(Into::into), fixed_path })
}

/// Splits a target into path and query. Reports errors.
fn path_and_query<'t>(
    text: &'t str,
    at: Span,
    diagnostics: &mut Diagnostics,
) -> Result<(&'t str, Option<&'t str>), Reported> {
    let rest = text.strip_prefix("forward:").unwrap_or(text);
    // `forward:///path` has an empty authority.
    let rest = rest.strip_prefix("//").filter(|rest| rest.starts_with('/')).unwrap_or(rest);
    if !rest.starts_with('/') || rest.starts_with("//") || rest.contains('#') {
        let error = diagnostics.error(at, format!("`{text}` has no path"));
        return Err(error.reported_with("write it like `forward:/path`"));
    }
    Ok(rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query))))
}

/// Returns the normal form of a path. Reports errors.
fn normalized(path: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<String, Reported> {
    let parsed = path.parse::<http::uri::PathAndQuery>().ok();
    match parsed.as_ref().map(|path| normalize(path.path())) {
        Some(Ok(path)) => Ok(path.into_owned()),
        Some(Err(error)) => Err(diagnostics.error(at, format!("`{path}` is not a valid path: {error}")).reported()),
        None => {
            let error = diagnostics.error(at, format!("`{path}` is not a valid path"));
            Err(error.reported_with("percent-encode special characters"))
        }
    }
}

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
    /// Sends an empty 200 if the upstream is unreachable.
    resume_without_error: Flag<false>,
    /// Bytes of a body that are held in memory for the fallback. Default 64KB.
    max_body_size: Option<BufferSize>,
}

fn check(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: CircuitBreakerArgs = input.read(diagnostics)?;
    let fallback = match args.fallback_uri {
        None => None,
        Some(uri) => {
            let fallback = fallback(uri.value.trim(), uri.span, diagnostics)?;
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
        resume_without_error: args.resume_without_error.get(),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_forward_is_a_path_of_the_gateway() {
        for (text, path) in [
            ("forward:/a", Some("/a")),
            ("forward:/a/../b", Some("/b")),
            ("forward:///a", Some("/a")),
            ("forward:/", Some("/")),
            ("forward:a", None),
            ("forward:", None),
            ("forward://host/a", None),
            ("forward:/a#b", None),
            ("forward:/a b", None),
            ("forward:/a%00", None),
        ] {
            let mut diagnostics = Diagnostics::default();
            let found = forward_target(text, Span::ROOT, &mut diagnostics);
            assert_eq!(found.ok().as_deref(), path, "{text}");
            assert_eq!(diagnostics.has_errors(), path.is_none(), "{text}");
        }
    }

    #[test]
    fn a_fallback_can_have_variables_and_a_query() {
        let mut diagnostics = Diagnostics::default();
        let plain = fallback("forward:/f?a=b", Span::ROOT, &mut diagnostics).unwrap();
        assert_eq!((plain.fixed_path.as_deref(), plain.query.as_deref()), (Some("/f"), Some("a=b")));
        let template = fallback("forward:/f/{v}", Span::ROOT, &mut diagnostics).unwrap();
        assert_eq!((template.fixed_path, template.path.variables()), (None, vec!["v"]));
        assert!(!diagnostics.has_errors());
        assert!(fallback("http://host/f", Span::ROOT, &mut diagnostics).is_err());
    }
}
