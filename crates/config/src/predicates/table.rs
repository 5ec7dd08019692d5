//! Predicates by name.

use std::sync::LazyLock;

use crate::diagnostics::{Diagnostics, Reported, closest, reasons};
use crate::predicates::context::PredicateContext;
use crate::predicates::entries::ENTRIES;
use crate::predicates::entry::{Check, Entry, PredicateInput};
use crate::predicates::rows;
use crate::spec::PredicateSpec;
use crate::spring::names::refusal;
use crate::switches::ComponentKind;
use tollgate_routing::{PREDICATES, Predicate};

/// Returns all predicates.
pub fn predicates() -> &'static [Entry] {
    static ALL: LazyLock<Vec<Entry>> =
        LazyLock::new(|| ENTRIES.iter().copied().chain(PREDICATES.iter().map(Entry::of_row)).collect());
    &ALL
}

/// Returns the names of all predicates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    predicates().iter().map(|entry| entry.name)
}

/// Returns the predicate that `spec` describes. Reports errors.
pub(super) fn check(
    spec: &PredicateSpec,
    context: &PredicateContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Predicate, Reported> {
    let Some(entry) = predicates().iter().find(|entry| entry.name == spec.name) else {
        return Err(report_unknown(spec, diagnostics));
    };
    context.switches.refuse(ComponentKind::Predicate, spec, diagnostics)?;
    spec.refuse_expressions(diagnostics)?;
    let input = PredicateInput { spec, args: entry.args, context };
    let predicate = match entry.check {
        Check::Own(check) => check(&input, diagnostics),
        Check::Row(row) => rows::check(row, &input, diagnostics),
    };
    predicate.map_err(|rejection| {
        rejection.reported(|error| {
            let message = reasons(error);
            diagnostics.error(spec.quoted_in(&message), message).reported()
        })
    })
}

fn report_unknown(spec: &PredicateSpec, diagnostics: &mut Diagnostics) -> Reported {
    let name = spec.name.as_str();
    if let Some(refusal) = refusal(name) {
        let message = format!("predicate `{name}` is not supported: {}", refusal.reason);
        return diagnostics.error(spec.span, message).reported_with(refusal.instead);
    }
    let all = names().collect::<Vec<_>>().join(", ");
    let error = diagnostics.error(spec.span, format!("unknown predicate `{name}`")).unknown_component(name);
    let reported = error.reported();
    match closest(name, names()) {
        Some(near) => error.did_you_mean(name, near),
        None => error.help(format!(
            "a Java class of the application, such as `{name}RoutePredicateFactory`, does not run here, and without it the route would match more requests; predicates: {all}"
        )),
    }
    reported
}
