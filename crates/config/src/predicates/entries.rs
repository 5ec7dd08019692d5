//! Predicates that read lists or settings of the configuration. All others have their row in `tollgate-routing`.

use std::sync::Arc;

use crate::predicates::checks::{methods, path, weight};
use crate::predicates::entry::{Check, Entry, ShortcutType};
use crate::predicates::{networks, patterns};
use crate::spec::argument::{Argument, ArgumentType};
use tollgate_routing::Predicate;

const SOURCES: Argument =
    Argument::new("sources", "Addresses and networks such as `10.0.0.0/8`.").of(ArgumentType::List);

/// Returns the rows of these predicates.
pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            name: "Path",
            doc: "The path matches one of the patterns: `?`, `*`, `**`, `{name}`, `{name:regex}`, `{*rest}`.",
            args: vec![
                Argument::new("patterns", "Patterns such as `/orders/**`; the first match sets the variables.")
                    .of(ArgumentType::List),
                Argument::new("matchTrailingSlash", "Ignores a `/` at the end. Default false.").of(ArgumentType::Flag),
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
            doc: "`Host`, with the port unless `predicate.host.include-port` is false, matches one of the patterns, \
              ignoring case and a final dot: `?` and `*` within a label, `**` over labels, `{name}`, `{name:regex}`.",
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
            name: "RemoteAddr",
            doc: "The address of the TCP peer is in one of these networks.",
            args: vec![SOURCES],
            shortcut: ShortcutType::GatherList,
            check: Check::Own(|input, diagnostics| {
                networks::warn(input.spec, diagnostics);
                Some(Predicate::remote_addr(&input.list(diagnostics)?))
            }),
        },
        Entry {
            name: "XForwardedRemoteAddr",
            doc: "The client address of `X-Forwarded-For` is in one of these networks; without the field, or with \
              several lines of it, the address of the TCP peer.",
            args: vec![
                SOURCES,
                Argument::new(
                    "maxTrustedIndex",
                    "1-based position of the entry to use, from the right; the leftmost if there are fewer. Default 1.",
                )
                .of(ArgumentType::Number),
            ],
            shortcut: ShortcutType::GatherList,
            check: Check::Own(networks::x_forwarded_remote_addr),
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
        Entry {
            name: "Version",
            doc: "The requested version (see `api-version`) is this one, or with a `+` this or a later one. A request without \
              a version matches.",
            args: vec![Argument::new("version", "A version such as `1.3`, or `1.1+`.")],
            shortcut: ShortcutType::Default,
            check: Check::Own(|input, diagnostics| {
                let ([version], [_]) = input.texts(diagnostics)?;
                input.context.need_versions(input.spec, diagnostics);
                Some(Predicate::version(version, Arc::clone(&input.context.versions)))
            }),
        },
    ]
}
