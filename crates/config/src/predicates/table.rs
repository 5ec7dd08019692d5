//! Predicates by name.

use std::sync::LazyLock;

use crate::diagnostics::{Diagnostics, Reported, reasons};
use crate::predicates::checks::{methods, path, warn_of_commas, weight};
use crate::predicates::context::PredicateContext;
use crate::predicates::row::{Check, Entry, PredicateInput, check_row};
use crate::spec::PredicateSpec;
use crate::spring::names::refusal;
use crate::switches::ComponentKind;
use tollgate_routing::{PREDICATES, Predicate, PredicateArgument};

/// Returns all predicates.
pub fn predicates() -> &'static [Entry] {
    static ALL: LazyLock<Vec<Entry>> =
        LazyLock::new(|| INDEXED.iter().copied().chain(PREDICATES.iter().map(Entry::of_row)).collect());
    &ALL
}

/// Returns the names of all predicates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    predicates().iter().map(|entry| entry.name)
}

/// Returns the predicate that `spec` describes. Reports errors.
pub(super) fn check(
    spec: &PredicateSpec<'_>,
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
        Check::Row(row) => check_row(row, &input, diagnostics),
    };
    predicate.map_err(|rejection| {
        rejection.reported(|error| {
            let message = reasons(error);
            diagnostics.error(spec.place_of(error.value_of_argument()), message).reported()
        })
    })
}

fn report_unknown(spec: &PredicateSpec<'_>, diagnostics: &mut Diagnostics) -> Reported {
    let name = spec.name.as_str();
    if let Some(refusal) = refusal(name) {
        let message = format!("predicate `{name}` is not supported: {}", refusal.reason);
        return diagnostics.error(spec.span, message).reported_with(refusal.instead);
    }
    let all = names().collect::<Vec<_>>().join(", ");
    let near = diagnostics.closest(name, names());
    let error = diagnostics.error(spec.span, format!("unknown predicate `{name}`")).unknown_component(name);
    let reported = error.reported();
    match near {
        Some(near) => error.did_you_mean(name, near),
        None => error.help(format!(
            "a Java class of the application, such as `{name}RoutePredicateFactory`, does not run here, and without it the route would match more requests; predicates: {all}"
        )),
    }
    reported
}

/// The predicates that the route table inspects. All others have their row in `tollgate-routing`.
const INDEXED: &[Entry] = &[
    Entry {
        name: "Path",
        doc: "The path matches one of the patterns: `?`, `*`, `**`, `{name}`, `{name:regex}`, `{*rest}`.",
        args: &[
            PredicateArgument::list("patterns", "Patterns such as `/orders/**`; the first match sets the variables."),
            PredicateArgument::flag(
                "matchTrailingSlash",
                "Ignores a `/` at the end. Default: `predicate.path.match-trailing-slash`.",
            ),
        ],
        check: Check::Own(path),
    },
    Entry {
        name: "Method",
        doc: "The method is one of these.",
        args: &[PredicateArgument::list("methods", "Methods such as `GET`.")],
        check: Check::Own(|input, diagnostics| {
            methods(input.spec, diagnostics);
            Ok(Predicate::method(&input.list(diagnostics)?)?)
        }),
    },
    Entry {
        name: "Host",
        doc: "`Host` matches one of the patterns, ignoring case and a final dot: `?` and `*` within a label, `**` over \
              labels, `{name}`, `{name:regex}`. A pattern without a port matches any port, but not in Spring files.",
        args: &[PredicateArgument::list(
            "patterns",
            "Patterns such as `**.example.org`; the first match sets the variables.",
        )],
        check: Check::Own(|input, diagnostics| {
            warn_of_commas(input.spec, diagnostics);
            let patterns = input.list(diagnostics)?;
            Ok(Predicate::host(&patterns, input.context.host_port)?)
        }),
    },
    Entry {
        name: "Weight",
        doc: "This route is selected at random among the routes of its group, in proportion to its weight. The selection \
              ignores other predicates: if they do not match, the request continues with routes outside of the group, \
              or gets 404.",
        args: &[
            PredicateArgument::text("group", "Name of the group, the same for all its routes."),
            PredicateArgument::number("weight", "A whole number; 0 is never selected."),
        ],
        check: Check::Own(weight),
    },
];
