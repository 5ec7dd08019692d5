//! Filters that edit the headers of upstreams' answers as data. They work in reverse order, the last listed first.

use http::header::LOCATION;
use tollgate_filters::edit::{DedupeStrategy, Edit, LocationSettings, StripVersion};

use crate::de::arg::Arg;
use crate::de::canonical;
use crate::de::values::{flag, header_name};
use crate::diagnostics::{Diagnostics, suggest};
use crate::filters::edits::{NAME, VALUE, finish, with_text, with_two};
use crate::filters::entry::{Argument, Call, Entry};
use crate::model::Filter;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "AddResponseHeader",
        doc: "Adds a value to a response header, behind those of the upstream.",
        args: &[
            NAME,
            VALUE,
            Argument::new("override", "False: only where there is none that is not blank. Default true."),
        ],
        check: |call, diagnostics| {
            let written = call.written;
            let [name, value, adds_anyway] = call.bind(diagnostics);
            let (name, value) =
                (written.required(name, "name", diagnostics)?, written.required(value, "value", diagnostics)?);
            let edit = Edit::add_response_header(&name.value, &value.value, flag(adds_anyway, true, diagnostics)?);
            finish(call, edit, diagnostics)
        },
    },
    Entry {
        name: "SetResponseHeader",
        doc: "Replaces all values of a response header.",
        args: &[NAME, VALUE],
        check: |call, diagnostics| with_two(call, Edit::set_response_header, diagnostics),
    },
    Entry {
        name: "RemoveResponseHeader",
        doc: "Removes a response header.",
        args: &[NAME],
        check: |call, diagnostics| with_text(call, Edit::remove_response_header, diagnostics),
    },
    Entry {
        name: "DedupeResponseHeader",
        doc: "Removes values that response headers have several times. List it before filters that add them.",
        args: &[
            Argument::new("name", "Names of headers, separated by spaces."),
            Argument::new(
                "strategy",
                "Which value stays: `RETAIN_FIRST`, `RETAIN_LAST` or `RETAIN_UNIQUE`, each once. Default `RETAIN_FIRST`.",
            ),
        ],
        check: dedupe,
    },
    Entry {
        name: "RewriteResponseHeader",
        doc: "Replaces every match in every value of a response header, as Java's `String.replaceAll` does.",
        args: &[
            NAME,
            Argument::new("regexp", "A regular expression, not anchored."),
            Argument::new("replacement", "What its matches become: `$1`, `$\\{name}` for groups."),
        ],
        check: |call, diagnostics| {
            let [name, regexp, replacement] = call.texts(diagnostics)?;
            finish(call, Edit::rewrite_response_header(name, regexp, replacement), diagnostics)
        },
    },
    Entry {
        name: "RewriteLocationResponseHeader",
        doc: "Puts the gateway's host in place of the upstream's in `Location`, and takes versions such as `/v2` out.",
        args: &[
            Argument::new(
                "stripVersion",
                "Whether the version goes: `NEVER_STRIP`, `AS_IN_REQUEST` (where the request's path has none) or `ALWAYS_STRIP`. Default `AS_IN_REQUEST`.",
            ),
            Argument::new("locationHeaderName", "The header. Default `Location`."),
            Argument::new("hostValue", "`host[:port]`. Default the request's `Host`."),
            Argument::new("protocols", "A regular expression for schemes of locations. Default `https?|ftps?`."),
        ],
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

fn dedupe(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [names, strategy] = call.bind(diagnostics);
    let names = call.written.required(names, "name", diagnostics)?;
    let strategy = constant(strategy, STRATEGIES, diagnostics)?;
    finish(call, Edit::dedupe_response_header(&names.value, strategy), diagnostics)
}

fn location(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [strip_version, header, host, protocols] = call.bind(diagnostics);
    let settings = LocationSettings {
        strip_version: constant(strip_version, STRIP_VERSION, diagnostics)?,
        header: match header {
            Some(arg) => header_name(&arg.value, arg.span, diagnostics)?,
            None => LOCATION,
        },
        host: host.map(|arg| arg.value.clone()),
        protocols: protocols.map_or_else(|| LocationSettings::default().protocols, |arg| arg.value.clone()),
    };
    finish(call, Edit::rewrite_location_response_header(&settings), diagnostics)
}

/// One of Java's constants, by its name in any case, with hyphens or underscores.
fn constant<T: Copy + Default>(arg: Option<&Arg>, known: &[(&str, T)], diagnostics: &mut Diagnostics) -> Option<T> {
    let Some(arg) = arg else { return Some(T::default()) };
    let found = known.iter().find(|(name, _)| canonical(name) == canonical(arg.value.trim()));
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        diagnostics.error(arg.span, format!("`{}` is none of its values", arg.value)).help(suggest(&arg.value, &names));
    }
    found.map(|(_, value)| *value)
}
