//! The table of predicates.

use std::sync::Arc;

use crate::de::canonical;
use crate::diagnostics::{Diagnostics, closest};
use crate::predicates::entry::{Checked, Entry, PredicateInput, ShortcutType, take_named};
use crate::predicates::{networks, patterns};
use crate::spec::PredicateSpec;
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

impl PredicateInput<'_> {
    /// Returns all values, whatever their names, as Spring does. Our own form requires the right names.
    pub(super) fn list(&self, diagnostics: &mut Diagnostics) -> Option<Vec<String>> {
        if !diagnostics.is_spring {
            self.names_fit(diagnostics);
        }
        self.spec.gather(diagnostics)
    }

    fn names_fit(&self, diagnostics: &mut Diagnostics) {
        for arg in &self.spec.args {
            let Some(name) = &arg.name else { continue };
            let base = canonical(name.split('[').next().unwrap_or(name));
            let fits = |argument: &Argument| {
                let known = canonical(argument.name);
                base == known || known.strip_suffix('s').is_some_and(|one| base == one)
            };
            if !self.args.iter().any(fits) && !base.starts_with("genkey") {
                let known: Vec<&str> = self.args.iter().map(|argument| argument.name).collect();
                diagnostics
                    .error(arg.span.key(), format!("`{}` has no argument `{name}`", self.spec.name))
                    .help(format!("known here: {}", known.join(", ")));
            }
        }
    }
}

fn path(input: &PredicateInput<'_>, diagnostics: &mut Diagnostics) -> Checked {
    patterns::warn(input.spec, diagnostics);
    let mut spec = input.spec.clone();
    let is_last = spec.args.last().is_some_and(|arg| arg.value.parse::<bool>().is_ok());
    let named = take_named(&mut spec, "matchTrailingSlash");
    if let Some(flag) = named.as_ref().filter(|_| !is_last) {
        diagnostics
            .mistake(flag.span, "Spring reads `matchTrailingSlash` as a pattern unless it is last")
            .help("move it after the patterns");
    }
    let input = PredicateInput { spec: &spec, ..*input };
    if !diagnostics.is_spring {
        input.names_fit(diagnostics);
    }
    let (patterns, flag) = spec.gather_with_flag(diagnostics)?;
    let flag = match &named {
        Some(arg) => crate::spec::values::flag(Some(arg), false, diagnostics)?,
        None => flag.unwrap_or(false),
    };
    if flag && diagnostics.is_spring {
        diagnostics.info(input.spec.span, "Spring Cloud Gateway 5 ignores `matchTrailingSlash`; here it applies");
    }
    let Some(base) = &input.context.base_path else { return Some(Predicate::path(&patterns, flag)) };
    // Checked alone first, so that errors quote the pattern of the file.
    if let Err(error) = Predicate::path(&patterns, flag) {
        return Some(Err(error));
    }
    let below = |pattern: &String| match pattern.starts_with('/') {
        true => format!("{base}{pattern}"),
        false => format!("{base}/{pattern}"),
    };
    Some(Predicate::path(&patterns.iter().map(below).collect::<Vec<_>>(), flag))
}

fn weight(spec: &PredicateSpec, diagnostics: &mut Diagnostics) -> Option<Predicate> {
    let mut spec = spec.clone();
    // Spring also has the names `weight.group` and `weight.weight`.
    for name in spec.args.iter_mut().filter_map(|arg| arg.name.as_mut()) {
        if let Some(rest) = name.strip_prefix("weight.") {
            *name = rest.to_owned();
        }
    }
    let [group, weight] = spec.arguments(["group", "weight"], diagnostics);
    let group = spec.required(group, "group", diagnostics)?;
    let weight = spec.required(weight, "weight", diagnostics)?;
    match weight.value.parse() {
        Ok(number) => Some(Predicate::weight(&group.value, number)),
        Err(_) => {
            diagnostics.error(weight.span, format!("`weight` must be a whole number from 0, found `{}`", weight.value));
            None
        }
    }
}

/// Warns of methods that look like typos. Custom methods are allowed.
fn methods(spec: &PredicateSpec, diagnostics: &mut Diagnostics) {
    const USUAL: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    for arg in &spec.args {
        let method = arg.value.as_str();
        let is_usual = USUAL.iter().any(|usual| usual.eq_ignore_ascii_case(method));
        if !is_usual && let Some(near) = closest(method, USUAL) {
            diagnostics.warn(arg.span, format!("unknown method `{method}`")).help(format!("did you mean `{near}`?"));
        }
    }
}
