//! Predicates by name.

use std::sync::LazyLock;

use crate::diagnostics::{Diagnostics, closest, reasons};
use crate::predicates::context::PredicateContext;
use crate::predicates::entries::entries;
use crate::predicates::entry::{Check, Entry, PredicateInput};
use crate::predicates::rows;
use crate::spec::PredicateSpec;
use crate::spring::names::refusal;
use crate::switches;
use tollgate_routing::{PREDICATES, Predicate};

/// Returns all predicates.
pub fn predicates() -> &'static [Entry] {
    static ENTRIES: LazyLock<Vec<Entry>> =
        LazyLock::new(|| entries().into_iter().chain(PREDICATES.iter().map(Entry::of_row)).collect());
    &ENTRIES
}

/// Returns the names of all predicates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    predicates().iter().map(|entry| entry.name)
}

/// Returns the predicate that `spec` describes. Reports errors; `None` if it cannot be used.
pub(super) fn check(
    spec: &PredicateSpec,
    context: &PredicateContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Predicate> {
    let Some(entry) = predicates().iter().find(|entry| entry.name == spec.name) else {
        report_unknown(spec, diagnostics);
        return None;
    };
    if context.switches.refuse(switches::ComponentKind::Predicate, spec, diagnostics)
        || spec.refuse_expressions(diagnostics)
    {
        return None;
    }
    let input = PredicateInput { spec, args: &entry.args, context };
    let result = match entry.check {
        Check::Own(check) => check(&input, diagnostics),
        Check::Row(row) => rows::check(row, &input, diagnostics),
    }?;
    let report = |error| {
        let message = reasons(&error);
        diagnostics.error(spec.quoted_in(&message), message);
    };
    result.map_err(report).ok()
}

fn report_unknown(spec: &PredicateSpec, diagnostics: &mut Diagnostics) {
    let name = spec.name.as_str();
    if let Some(refusal) = refusal(name) {
        diagnostics
            .error(spec.span, format!("predicate `{name}` is not supported: {}", refusal.reason))
            .help(refusal.instead);
        return;
    }
    let all = names().collect::<Vec<_>>().join(", ");
    let help = diagnostics.error(spec.span, format!("unknown predicate `{name}`")).unknown_component(name);
    match closest(name, names()) {
        Some(near) => help.did_you_mean(name, near),
        None => help.help(format!(
            "a Java class of the application, such as `{name}RoutePredicateFactory`, does not run here, and without it the route would match more requests; predicates: {all}"
        )),
    }
}
