//! The predicates that the route table inspects. All others have their row in `tollgate-routing`.

use crate::predicates::checks::{methods, path, weight};
use crate::predicates::entry::{Check, Entry, ShortcutType};
use crate::predicates::patterns;
use crate::spec::argument::{Argument, ArgumentType};
use tollgate_routing::Predicate;

/// Returns the rows of these predicates.
pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            name: "Path",
            doc: "The path matches one of the patterns: `?`, `*`, `**`, `{name}`, `{name:regex}`, `{*rest}`.",
            args: vec![
                Argument::new("patterns", "Patterns such as `/orders/**`; the first match sets the variables.")
                    .of(ArgumentType::List),
                Argument::new(
                    "matchTrailingSlash",
                    "Ignores a `/` at the end. Default: `predicate.path.match-trailing-slash`.",
                )
                .of(ArgumentType::Flag),
            ],
            shortcut: ShortcutType::GatherListTailFlag,
            check: Check::Own(path),
        },
        Entry {
            name: "Method",
            doc: "The method is one of these.",
            args: vec![Argument::new("methods", "Methods such as `GET`.").of(ArgumentType::List)],
            shortcut: ShortcutType::GatherList,
            check: Check::Own(|input, diagnostics| {
                methods(input.spec, diagnostics);
                Some(Predicate::method(&input.list(diagnostics)?))
            }),
        },
        Entry {
            name: "Host",
            doc: "`Host` matches one of the patterns, ignoring case and a final dot: `?` and `*` within a label, `**` over \
              labels, `{name}`, `{name:regex}`. A pattern without a port matches any port, but not in Spring files.",
            args: vec![
                Argument::new("patterns", "Patterns such as `**.example.org`; the first match sets the variables.")
                    .of(ArgumentType::List),
            ],
            shortcut: ShortcutType::GatherList,
            check: Check::Own(|input, diagnostics| {
                patterns::warn(input.spec, diagnostics);
                let patterns = input.list(diagnostics)?;
                Some(Predicate::host(&patterns, input.context.host_port))
            }),
        },
        Entry {
            name: "Weight",
            doc: "This route is selected at random among the routes of its group, in proportion to its weight. The selection \
              ignores other predicates: if they do not match, the request continues with routes outside of the group, \
              or gets 404.",
            args: vec![
                Argument::new("group", "Name of the group, the same for all its routes."),
                Argument::new("weight", "A whole number; 0 is never selected.").of(ArgumentType::Number),
            ],
            shortcut: ShortcutType::Default,
            check: Check::Own(|input, diagnostics| weight(input.spec, diagnostics).map(Ok)),
        },
    ]
}
