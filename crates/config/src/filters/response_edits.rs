//! Filters that edit the headers of responses. They run in reverse order, the last listed first.

use http::header::LOCATION;
use tollgate_filters::edit::{DedupeStrategy, Edit, LocationSettings, StripVersion};

use crate::de::canonical;
use crate::diagnostics::Diagnostics;
use crate::filters::edit::{NAME, VALUE, finish, with_text, with_two};
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::definition::Arg;
use crate::spec::values::{flag, header_name};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "AddResponseHeader",
        doc: "Adds a value to a response header, after those of the upstream.",
        args: Arguments::Listed(&[
            NAME,
            VALUE,
            Argument::new("override", "Adds it even if the header has a value. Default true.").of(ArgumentType::Flag),
        ]),
        check: |input, diagnostics| {
            let spec = input.spec;
            let [name, value, adds_anyway] = input.arguments(diagnostics);
            let (name, value) =
                (spec.required(name, "name", diagnostics)?, spec.required(value, "value", diagnostics)?);
            let edit = Edit::add_response_header(&name.value, &value.value, flag(adds_anyway, true, diagnostics)?);
            finish(input, edit, diagnostics)
        },
    },
    Entry {
        name: "SetResponseHeader",
        doc: "Replaces all values of a response header.",
        args: Arguments::Listed(&[NAME, VALUE]),
        check: |input, diagnostics| with_two(input, Edit::set_response_header, diagnostics),
    },
    Entry {
        name: "RemoveResponseHeader",
        doc: "Removes a response header.",
        args: Arguments::Listed(&[NAME]),
        check: |input, diagnostics| with_text(input, Edit::remove_response_header, diagnostics),
    },
    Entry {
        name: "DedupeResponseHeader",
        doc: "Removes duplicate values of response headers. List it before filters that add them.",
        args: Arguments::Listed(&[
            Argument::new("name", "Header names, separated by spaces."),
            Argument::new(
                "strategy",
                "Values to keep: `RETAIN_FIRST`, `RETAIN_LAST` or `RETAIN_UNIQUE` (each once). Default `RETAIN_FIRST`.",
            ),
        ]),
        check: dedupe,
    },
    Entry {
        name: "RewriteResponseHeader",
        doc: "Replaces every match in every value of a response header, as Java's `String.replaceAll` does.",
        args: Arguments::Listed(&[
            NAME,
            Argument::new("regexp", "A regular expression, not anchored."),
            Argument::new("replacement", "Replacement of each match: `$1`, `$\\{name}` for groups."),
        ]),
        check: |input, diagnostics| {
            let [name, regexp, replacement] = input.texts(diagnostics)?;
            finish(input, Edit::rewrite_response_header(name, regexp, replacement), diagnostics)
        },
    },
    Entry {
        name: "RewriteLocationResponseHeader",
        doc: "Replaces the upstream's host in `Location` by the gateway's, and removes versions such as `/v2`.",
        args: Arguments::Listed(&[
            Argument::new(
                "stripVersion",
                "Removal of the version: `NEVER_STRIP`, `AS_IN_REQUEST` (if the request's path has none) or `ALWAYS_STRIP`. Default `AS_IN_REQUEST`.",
            ),
            Argument::new("locationHeaderName", "Header name. Default `Location`.").of(ArgumentType::HeaderName),
            Argument::new("hostValue", "`host[:port]`. Default: the request's `Host`."),
            Argument::new("protocols", "Regular expression for the schemes of locations. Default `https?|ftps?`."),
        ]),
        check: location,
    },
];

const STRATEGIES: &[(&str, DedupeStrategy)] = &[
    ("RETAIN_FIRST", DedupeStrategy::RetainFirst),
    ("RETAIN_LAST", DedupeStrategy::RetainLast),
    ("RETAIN_UNIQUE", DedupeStrategy::RetainUnique),
];

const STRIP_VERSION: &[(&str, StripVersion)] = &[
    ("NEVER_STRIP", StripVersion::NeverStrip),
    ("AS_IN_REQUEST", StripVersion::AsInRequest),
    ("ALWAYS_STRIP", StripVersion::AlwaysStrip),
];

fn dedupe(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [names, strategy] = input.arguments(diagnostics);
    let names = input.spec.required(names, "name", diagnostics)?;
    let strategy = constant(strategy, STRATEGIES, diagnostics)?;
    finish(input, Edit::dedupe_response_header(&names.value, strategy), diagnostics)
}

fn location(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [strip_version, header, host, protocols] = input.arguments(diagnostics);
    let settings = LocationSettings {
        strip_version: constant(strip_version, STRIP_VERSION, diagnostics)?,
        header: match header {
            Some(arg) => header_name(&arg.value, arg.span, diagnostics)?,
            None => LOCATION,
        },
        host: host.map(|arg| arg.value.clone()),
        protocols: protocols.map_or_else(|| LocationSettings::default().protocols, |arg| arg.value.clone()),
    };
    finish(input, Edit::rewrite_location_response_header(&settings), diagnostics)
}

/// Reads a Java constant by its name, in any case, with hyphens or underscores.
fn constant<T: Copy + Default>(arg: Option<&Arg>, known: &[(&str, T)], diagnostics: &mut Diagnostics) -> Option<T> {
    let Some(arg) = arg else { return Some(T::default()) };
    let found = known.iter().find(|(name, _)| canonical(name) == canonical(arg.value.trim()));
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        diagnostics.error(arg.span, format!("unknown value `{}`", arg.value)).suggest(&arg.value, &names);
    }
    found.map(|(_, value)| *value)
}
