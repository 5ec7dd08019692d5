//! The predicates that the route table inspects. All others have their row in `tollgate-routing`.

use crate::predicates::checks::{methods, path, weight};
use crate::predicates::entry::{Check, Entry};
use crate::predicates::patterns;
use tollgate_routing::{Predicate, PredicateArgument};

/// Rows of these predicates.
pub(super) const ENTRIES: &[Entry] = &[
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
            patterns::warn(input.spec, diagnostics);
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
