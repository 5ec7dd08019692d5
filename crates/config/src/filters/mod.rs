//! Filters by name. One table serves dispatch, messages, the schema and the documentation; each file has its rows.

pub(crate) mod circuit_breaker;
mod concurrency_limiter;
pub(crate) mod for_all_routes;
pub(crate) mod local_response_cache;
pub(crate) mod model;
pub(crate) mod plain;
mod refusals;
mod request_counter;
mod request_edits;
mod response_edits;
mod retry;
pub(crate) mod row;
#[cfg(test)]
pub(crate) mod schema;
pub(crate) mod secure_headers;
mod targets;

use std::cell::Cell;

pub(crate) use self::circuit_breaker::configure_breaker;
pub use self::row::Entry;
use crate::diagnostics::{Diagnostics, Missing, Reported, Section, Severity, is_misspelled, similar};
use crate::filters::model::Filter;
use crate::filters::row::{Arguments, FilterContext, FilterInput};
use crate::rate_limiter;
use crate::rate_limiter::args::LimiterArgs;
use crate::rate_limiter::check::EXAMPLE;
use crate::spec::{FilterSpec, Shortcut};
use crate::spring::names::refusal;
use crate::spring::proposals::{self, Proposal};
use crate::switches::ComponentKind;

/// `RequestRateLimiter`, which has a folder of its own.
const RATE_LIMITER: &[Entry] = &[Entry {
    name: "RequestRateLimiter",
    doc: "Limits the rate of requests per key, by one or several rules.",
    args: Arguments::of::<LimiterArgs>(Shortcut::None(EXAMPLE)),
    check: |input, diagnostics| {
        let limiter = rate_limiter::check::check(input.spec, &input.context.limiters, diagnostics)?;
        Ok(Filter::RequestRateLimiter(Box::new(limiter)))
    },
}];

/// Returns all filters.
pub fn filters() -> impl Iterator<Item = &'static Entry> {
    let tables = [
        refusals::API_KEY,
        circuit_breaker::ENTRIES,
        concurrency_limiter::ENTRIES,
        local_response_cache::ENTRIES,
        plain::ENTRIES,
        RATE_LIMITER,
        request_counter::ENTRIES,
        request_edits::ENTRIES,
        response_edits::ENTRIES,
        retry::ENTRIES,
        secure_headers::ENTRIES,
        refusals::SIZES,
        targets::ENTRIES,
    ];
    tables.into_iter().flatten()
}

/// Returns the names of all filters, sorted.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = filters().map(|entry| entry.name).collect();
    names.sort_unstable();
    names
}

/// Returns the filter that `spec` describes. Reports errors.
pub(crate) fn check(
    spec: &FilterSpec<'_>,
    context: &FilterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Filter, Reported> {
    context.switches.refuse(ComponentKind::Filter, spec, diagnostics)?;
    let Some(entry) = filters().find(|entry| entry.name == spec.name) else {
        return Err(report_unknown(spec, diagnostics));
    };
    let shortcut = entry.args.shortcut;
    // Filters without a shortcut have values such as `#{@name}`, which name beans of Spring's.
    if !matches!(shortcut, Shortcut::None(_)) {
        spec.refuse_expressions(diagnostics)?;
    }
    let input = FilterInput { spec, shortcut, context, reported: Cell::default() };
    let filter = (entry.check)(&input, diagnostics);
    input.reported.get().map_or(filter, Err)
}

fn report_unknown(spec: &FilterSpec<'_>, diagnostics: &mut Diagnostics) -> Reported {
    let name = spec.name.as_str();
    if let Some(refusal) = refusal(name) {
        let error = diagnostics.error(spec.span, format!("filter `{name}` is not supported: {}", refusal.reason));
        let error = match proposals::refused(name) {
            Some(Proposal { value, comment }) => error.missing(Missing {
                section: Section::FilterBeans,
                name: name.to_owned(),
                value,
                comment: comment.to_owned(),
            }),
            None => error,
        };
        return error.reported_with(refusal.instead);
    }
    let is_name = name.starts_with(|first: char| first.is_ascii_uppercase());
    if !is_name && spec.args.is_empty() && spec.text == name {
        let error = diagnostics.error(spec.span, format!("unknown filter `{name}`"));
        return error.reported_with("if it is an argument of the filter before it, quote that one: within `[…]`, a comma ends an entry: `['AddRequestHeader=X-A, b']`");
    }
    let near = diagnostics.closest(name, names());
    let may_be_java = diagnostics.mistakes == Severity::Warning;
    let mut error = diagnostics.error(spec.span, format!("unknown filter `{name}`")).unknown_component(name);
    // A stand-in is for a filter of a Spring application. A misspelled name is corrected: without its filter, a limit would go.
    if may_be_java && !near.is_some_and(|near| is_misspelled(name, near)) {
        let Proposal { value, comment } = proposals::filter(name);
        let meant = near.or_else(|| proposals::synonym(name));
        let comment =
            meant.map_or_else(|| comment.to_owned(), |meant| format!("or correct the name: did you mean `{meant}`?"));
        error = error.missing(Missing { section: Section::FilterBeans, name: name.to_owned(), value, comment });
    }
    let reported = error.reported();
    match near {
        Some(near) => error.did_you_mean(name, near),
        None => error.help(suggestions(name)),
    }
    reported
}

/// Returns similar names, and advice about filters in Java.
fn suggestions(name: &str) -> String {
    let class = if name.ends_with("Filter") { name.to_owned() } else { format!("{name}GatewayFilterFactory") };
    let java = format!(
        "a Java class of the application, such as `{class}`, does not run here: `filter-beans: {{{name}: skip}}` in a second file leaves it out, or names a filter of docs/reference/filters in its place"
    );
    let similar = similar(name, names());
    match proposals::synonym(name) {
        Some(meant) => format!("did you mean `{meant}`? {java}"),
        None if similar.is_empty() => java,
        None => format!("similar: {}; {java}", similar.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_is_in_the_table_once_and_documented() {
        let mut seen = names();
        seen.dedup();
        assert_eq!(seen.len(), filters().count());
        for entry in filters() {
            assert!(entry.doc.ends_with('.'), "{}", entry.name);
            for argument in entry.arguments() {
                assert!(argument.doc.ends_with('.'), "{} {}", entry.name, argument.name);
            }
        }
    }
}
