//! The table of predicates.

use std::sync::Arc;

use crate::predicates::checks::{methods, path, weight};
use crate::predicates::entry::{Entry, ShortcutType};
use crate::predicates::{networks, patterns};
use crate::spec::argument::{Argument, ArgumentType};
use tollgate_routing::Predicate;

const DATETIME: &str = "A time such as `2027-01-20T17:42:47.789-07:00[America/Denver]`, or milliseconds since 1970.";
const REGEXP: &str = "Regular expression that must match a whole value. Default: any value.";
const SOURCES: Argument =
    Argument::new("sources", "Addresses and networks such as `10.0.0.0/8`.").of(ArgumentType::List);

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "Path",
        doc: "The path matches one of the patterns: `?`, `*`, `**`, `{name}`, `{name:regex}`, `{*rest}`.",
        args: &[
            Argument::new("patterns", "Patterns such as `/orders/**`; the first match sets the variables.")
                .of(ArgumentType::List),
            Argument::new("matchTrailingSlash", "Ignores a `/` at the end. Default false.").of(ArgumentType::Flag),
        ],
        shortcut: ShortcutType::GatherListTailFlag,
        check: path,
    },
    Entry {
        name: "Method",
        doc: "The method is one of these.",
        args: &[Argument::new("methods", "Methods such as `GET`.").of(ArgumentType::List)],
        shortcut: ShortcutType::GatherList,
        check: |input, diagnostics| {
            methods(input.spec, diagnostics);
            Some(Predicate::method(&input.list(diagnostics)?))
        },
    },
    Entry {
        name: "Host",
        doc: "`Host`, with the port unless `predicate.host.include-port` is false, matches one of the patterns, \
              ignoring case and a final dot: `?` and `*` within a label, `**` over labels, `{name}`, `{name:regex}`.",
        args: &[Argument::new("patterns", "Patterns such as `**.example.org`; the first match sets the variables.")
            .of(ArgumentType::List)],
        shortcut: ShortcutType::GatherList,
        check: |input, diagnostics| {
            patterns::warn(input.spec, diagnostics);
            let patterns = input.list(diagnostics)?;
            Some(Predicate::host(&patterns, input.context.host_port))
        },
    },
    Entry {
        name: "Header",
        doc: "A value of the header matches; comma-separated lists are split. Without `regexp`, a value is not empty.",
        args: &[Argument::new("header", "Header name."), Argument::new("regexp", REGEXP)],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| {
            let ([name], [_, regexp]) = input.texts(diagnostics)?;
            Some(Predicate::header(name, regexp))
        },
    },
    Entry {
        name: "Query",
        doc: "A value of the parameter matches; without `regexp`, the parameter exists.",
        args: &[Argument::new("param", "Parameter name."), Argument::new("regexp", REGEXP)],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| {
            let ([param], [_, regexp]) = input.texts(diagnostics)?;
            Some(Predicate::query(param, regexp))
        },
    },
    Entry {
        name: "Cookie",
        doc: "The value of a cookie of this name matches.",
        args: &[
            Argument::new("name", "Cookie name."),
            Argument::new("regexp", "Regular expression that must match its whole value."),
        ],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| {
            let ([name, regexp], [_, _]) = input.texts(diagnostics)?;
            Some(Predicate::cookie(name, regexp))
        },
    },
    Entry {
        name: "After",
        doc: "The current time is after this one.",
        args: &[Argument::new("datetime", DATETIME)],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| {
            let ([datetime], [_]) = input.texts(diagnostics)?;
            Some(Predicate::after(datetime))
        },
    },
    Entry {
        name: "Before",
        doc: "The current time is before this one.",
        args: &[Argument::new("datetime", DATETIME)],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| {
            let ([datetime], [_]) = input.texts(diagnostics)?;
            Some(Predicate::before(datetime))
        },
    },
    Entry {
        name: "Between",
        doc: "The current time is after the first and before the second.",
        args: &[Argument::new("datetime1", DATETIME), Argument::new("datetime2", DATETIME)],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| {
            let ([from, to], [_, _]) = input.texts(diagnostics)?;
            Some(Predicate::between(from, to))
        },
    },
    Entry {
        name: "RemoteAddr",
        doc: "The address of the TCP peer is in one of these networks.",
        args: &[SOURCES],
        shortcut: ShortcutType::GatherList,
        check: |input, diagnostics| {
            networks::warn(input.spec, diagnostics);
            Some(Predicate::remote_addr(&input.list(diagnostics)?))
        },
    },
    Entry {
        name: "XForwardedRemoteAddr",
        doc: "The client address of `X-Forwarded-For` is in one of these networks; without the field, or with \
              several lines of it, the address of the TCP peer.",
        args: &[
            SOURCES,
            Argument::new(
                "maxTrustedIndex",
                "1-based position of the entry to use, from the right; the leftmost if there are fewer. Default 1.",
            )
            .of(ArgumentType::Number),
        ],
        shortcut: ShortcutType::GatherList,
        check: networks::x_forwarded_remote_addr,
    },
    Entry {
        name: "Weight",
        doc: "This route is selected at random among the routes of its group, in proportion to its weight. The selection \
              ignores other predicates: if they do not match, the request continues with routes outside of the group, \
              or gets 404.",
        args: &[
            Argument::new("group", "Name of the group, the same for all its routes."),
            Argument::new("weight", "A whole number; 0 is never selected.").of(ArgumentType::Number),
        ],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| weight(input.spec, diagnostics).map(Ok),
    },
    Entry {
        name: "Version",
        doc: "The requested version (see `api-version`) is this one, or with a `+` this or a later one. A request without \
              a version matches.",
        args: &[Argument::new("version", "A version such as `1.3`, or `1.1+`.")],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| {
            let ([version], [_]) = input.texts(diagnostics)?;
            input.context.need_versions(input.spec, diagnostics);
            Some(Predicate::version(version, Arc::clone(&input.context.versions)))
        },
    },
    Entry {
        name: "CloudFoundryRouteService",
        doc: "The request has the three headers of a Cloud Foundry route service. Written `CloudFoundryRouteService=`.",
        args: &[],
        shortcut: ShortcutType::Default,
        check: |input, diagnostics| {
            let [] = input.arguments(diagnostics);
            Some(Ok(Predicate::cloud_foundry_route_service()))
        },
    },
];
