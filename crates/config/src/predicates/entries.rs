//! The table of predicates.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::de::arg::Arg;
use crate::de::{canonical, same_name};
use crate::diagnostics::{Diagnostics, closest};
use crate::filters::Argument;
use crate::predicates::entry::{Call, Entry, Takes};
use crate::predicates::{networks, patterns};
use crate::spring::spec::Written;
use tollgate_routing::{Predicate, PredicateError};

const DATETIME: &str = "A time such as `2027-01-20T17:42:47.789-07:00[America/Denver]`, or milliseconds since 1970.";
const REGEXP: &str = "A regular expression for the whole of a value. Default: any value.";
const SOURCES: Argument = Argument::new("sources", "Addresses and networks such as `10.0.0.0/8`.");

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "Path",
        doc: "The path matches one of the patterns: `?`, `*`, `**`, `{name}`, `{name:regex}`, `{*rest}`.",
        args: &[
            Argument::new("patterns", "Patterns such as `/orders/**`; the first that matches gives the variables."),
            Argument::new("matchTrailingSlash", "Whether a `/` at the end may be ignored. Default false."),
        ],
        takes: Takes::ListAndFlag,
        check: path,
    },
    Entry {
        name: "Method",
        doc: "The method is one of these.",
        args: &[Argument::new("methods", "Methods such as `GET`.")],
        takes: Takes::List,
        check: |call, diagnostics| {
            methods(call.written, diagnostics);
            Some(Predicate::method(&call.list(diagnostics)?))
        },
    },
    Entry {
        name: "Host",
        doc: "The text of `Host`, port included unless `predicate.host.include-port` is false, matches one of the \
              patterns, case-sensitive: `?` and `*` within a label, `**` over labels, `{name}`, `{name:regex}`.",
        args: &[Argument::new(
            "patterns",
            "Patterns such as `**.example.org`; the first that matches gives the variables.",
        )],
        takes: Takes::List,
        check: |call, diagnostics| {
            patterns::warn(call.written, diagnostics);
            let patterns = call.list(diagnostics)?;
            let with_port = call.settings.include_port;
            Some(if with_port { Predicate::host(&patterns) } else { Predicate::host_without_port(&patterns) })
        },
    },
    Entry {
        name: "Header",
        doc: "One value of the header, comma-separated lists split, matches; without `regexp`, one is not empty.",
        args: &[Argument::new("header", "The header's name."), Argument::new("regexp", REGEXP)],
        takes: Takes::Each,
        check: |call, diagnostics| {
            let ([name], [_, regexp]) = call.texts(diagnostics)?;
            Some(Predicate::header(name, regexp))
        },
    },
    Entry {
        name: "Query",
        doc: "One value of the parameter matches; without `regexp`, the parameter is there.",
        args: &[Argument::new("param", "The parameter's name."), Argument::new("regexp", REGEXP)],
        takes: Takes::Each,
        check: |call, diagnostics| {
            let ([param], [_, regexp]) = call.texts(diagnostics)?;
            Some(Predicate::query(param, regexp))
        },
    },
    Entry {
        name: "Cookie",
        doc: "A cookie of this name has a value that matches.",
        args: &[
            Argument::new("name", "The cookie's name."),
            Argument::new("regexp", "A regular expression for the whole of its value."),
        ],
        takes: Takes::Each,
        check: |call, diagnostics| {
            let ([name, regexp], [_, _]) = call.texts(diagnostics)?;
            Some(Predicate::cookie(name, regexp))
        },
    },
    Entry {
        name: "After",
        doc: "The time is past this one.",
        args: &[Argument::new("datetime", DATETIME)],
        takes: Takes::Each,
        check: |call, diagnostics| {
            let ([datetime], [_]) = call.texts(diagnostics)?;
            Some(Predicate::after(datetime))
        },
    },
    Entry {
        name: "Before",
        doc: "The time is before this one.",
        args: &[Argument::new("datetime", DATETIME)],
        takes: Takes::Each,
        check: |call, diagnostics| {
            let ([datetime], [_]) = call.texts(diagnostics)?;
            Some(Predicate::before(datetime))
        },
    },
    Entry {
        name: "Between",
        doc: "The time is past the first and before the second.",
        args: &[Argument::new("datetime1", DATETIME), Argument::new("datetime2", DATETIME)],
        takes: Takes::Each,
        check: |call, diagnostics| {
            let ([from, to], [_, _]) = call.texts(diagnostics)?;
            Some(Predicate::between(from, to))
        },
    },
    Entry {
        name: "RemoteAddr",
        doc: "The TCP peer is in one of these networks.",
        args: &[SOURCES],
        takes: Takes::List,
        check: |call, diagnostics| {
            networks::warn(call.written, diagnostics);
            Some(Predicate::remote_addr(&call.list(diagnostics)?))
        },
    },
    Entry {
        name: "XForwardedRemoteAddr",
        doc: "The client's address by `X-Forwarded-For` is in one of these networks; without the field, and with \
              several lines of it, the TCP peer's.",
        args: &[
            SOURCES,
            Argument::new(
                "maxTrustedIndex",
                "The entry that counts, from the right; the first where there are fewer. Default 1.",
            ),
        ],
        takes: Takes::List,
        check: x_forwarded_remote_addr,
    },
    Entry {
        name: "Weight",
        doc: "Of the routes of a group this one is drawn, as often as its share of their weights says. What is drawn \
              does not depend on other predicates: a request whose route they refuse goes on to routes outside of the \
              group, or gets 404.",
        args: &[
            Argument::new("group", "The group's name, the same for all routes between which is drawn."),
            Argument::new("weight", "A whole number; 0 is never drawn."),
        ],
        takes: Takes::Each,
        check: |call, diagnostics| weight(call.written, diagnostics).map(Ok),
    },
    Entry {
        name: "Version",
        doc: "The version that the request asks for (see `api-version`) is this one, or with a `+` this or a later one. \
              A request without a version matches.",
        args: &[Argument::new("version", "A version such as `1.3`, or `1.1+`.")],
        takes: Takes::Each,
        check: |call, diagnostics| {
            let ([version], [_]) = call.texts(diagnostics)?;
            call.settings.need_versions(call.written, diagnostics);
            Some(Predicate::version(version, Arc::clone(&call.settings.versions)))
        },
    },
    Entry {
        name: "CloudFoundryRouteService",
        doc: "The three headers of a Cloud Foundry route service are there. Written `CloudFoundryRouteService=`.",
        args: &[],
        takes: Takes::Each,
        check: |call, diagnostics| {
            let [] = call.bind(diagnostics);
            Some(Ok(Predicate::cloud_foundry_route_service()))
        },
    },
];

type Checked = Option<Result<Predicate, PredicateError>>;

impl Call<'_> {
    /// Every argument's value, whatever its name, as Spring gathers them. Our own form wants the right name.
    fn list(&self, diagnostics: &mut Diagnostics) -> Option<Vec<String>> {
        if !diagnostics.is_spring {
            self.names_fit(diagnostics);
        }
        self.written.gather(diagnostics)
    }

    fn names_fit(&self, diagnostics: &mut Diagnostics) {
        for arg in &self.written.args {
            let Some(name) = &arg.name else { continue };
            let base = canonical(name.split('[').next().unwrap_or(name));
            let fits = |argument: &Argument| {
                let known = canonical(argument.name);
                base == known || known.strip_suffix('s').is_some_and(|one| base == one)
            };
            if !self.args.iter().any(fits) && !base.starts_with("genkey") {
                let known: Vec<&str> = self.args.iter().map(|argument| argument.name).collect();
                diagnostics
                    .error(arg.span.key(), format!("`{}` has no argument `{name}`", self.written.name))
                    .help(format!("known here: {}", known.join(", ")));
            }
        }
    }
}

/// Takes the argument called `name` out of those that are gathered.
fn take_named(written: &mut Written, name: &str) -> Option<Arg> {
    let is_it = |arg: &Arg| arg.name.as_deref().is_some_and(|given| same_name(given, name));
    let at = written.args.iter().position(is_it)?;
    Some(written.args.remove(at))
}

fn path(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Checked {
    patterns::warn(call.written, diagnostics);
    let mut written = call.written.clone();
    let is_last = written.args.last().is_some_and(|arg| arg.value.parse::<bool>().is_ok());
    let named = take_named(&mut written, "matchTrailingSlash");
    if let Some(flag) = named.as_ref().filter(|_| !is_last) {
        diagnostics
            .mistake(flag.span, "Spring takes `matchTrailingSlash` for a pattern where it does not stand last")
            .help("move it behind the patterns");
    }
    let call = Call { written: &written, ..*call };
    if !diagnostics.is_spring {
        call.names_fit(diagnostics);
    }
    let (patterns, flag) = written.gather_with_flag(diagnostics)?;
    let flag = match &named {
        Some(arg) => crate::de::values::flag(Some(arg), false, diagnostics)?,
        None => flag.unwrap_or(false),
    };
    if flag && diagnostics.is_spring {
        diagnostics.info(call.written.span, "Spring Cloud Gateway 5 does not heed `matchTrailingSlash`; here it holds");
    }
    let Some(base) = &call.settings.base_path else { return Some(Predicate::path(&patterns, flag)) };
    // Alone first, so that a complaint speaks of what was written.
    if let Err(error) = Predicate::path(&patterns, flag) {
        return Some(Err(error));
    }
    let below = |pattern: &String| match pattern.starts_with('/') {
        true => format!("{base}{pattern}"),
        false => format!("{base}/{pattern}"),
    };
    Some(Predicate::path(&patterns.iter().map(below).collect::<Vec<_>>(), flag))
}

fn x_forwarded_remote_addr(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Checked {
    let mut written = call.written.clone();
    let index = match take_named(&mut written, "maxTrustedIndex") {
        None => NonZeroUsize::MIN,
        Some(arg) => {
            if diagnostics.is_spring {
                diagnostics
                    .warn(
                        arg.span.key(),
                        "Spring takes `maxTrustedIndex` for one of the sources and matches nothing; here it counts",
                    )
                    .help("in Spring it can be set in Java alone");
            }
            let Ok(index) = arg.value.trim().parse() else {
                diagnostics
                    .error(arg.span, format!("`maxTrustedIndex` must be a number from 1, found `{}`", arg.value));
                return None;
            };
            index
        }
    };
    networks::warn(&written, diagnostics);
    let sources = Call { written: &written, ..*call }.list(diagnostics)?;
    Some(Predicate::x_forwarded_remote_addr(&sources, index))
}

fn weight(written: &Written, diagnostics: &mut Diagnostics) -> Option<Predicate> {
    let mut written = written.clone();
    // Spring's own names are `weight.group` and `weight.weight`.
    for name in written.args.iter_mut().filter_map(|arg| arg.name.as_mut()) {
        if let Some(rest) = name.strip_prefix("weight.") {
            *name = rest.to_owned();
        }
    }
    let [group, weight] = written.bind(["group", "weight"], diagnostics);
    let group = written.required(group, "group", diagnostics)?;
    let weight = written.required(weight, "weight", diagnostics)?;
    match weight.value.parse() {
        Ok(number) => Some(Predicate::weight(&group.value, number)),
        Err(_) => {
            diagnostics.error(weight.span, format!("a weight is a whole number from 0, found `{}`", weight.value));
            None
        }
    }
}

/// A method of one's own is allowed; one that looks like a slip of the finger is pointed out.
fn methods(written: &Written, diagnostics: &mut Diagnostics) {
    const USUAL: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    for arg in &written.args {
        let method = arg.value.as_str();
        let is_usual = USUAL.iter().any(|usual| usual.eq_ignore_ascii_case(method));
        if !is_usual && let Some(near) = closest(method, USUAL) {
            diagnostics
                .warn(arg.span, format!("`{method}` is none of the usual methods"))
                .help(format!("did you mean `{near}`?"));
        }
    }
}
