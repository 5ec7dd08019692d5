//! Filters that edit the headers of upstreams' answers as data. They work in reverse order, the last listed first.

use http::header::LOCATION;
use tollgate_filters::edit::{DedupeStrategy, Edit, LocationSettings, StripVersion};

use super::super::de::canonical;
use super::super::definition::Arg;
use super::super::model::Filter;
use super::super::problem::{Sink, suggest};
use super::super::values::{flag, header_name};
use super::edits::{NAME, VALUE, finish, with_text, with_two};
use super::{Argument, Call, Entry};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "AddResponseHeader",
        doc: "Adds a value to a response header, behind those of the upstream.",
        args: &[
            NAME,
            VALUE,
            Argument::new("override", "False: only where there is none that is not blank. Default true."),
        ],
        check: |call, sink| {
            let written = call.written;
            let [name, value, adds_anyway] = call.bind(sink);
            let (name, value) = (written.required(name, "name", sink)?, written.required(value, "value", sink)?);
            let edit = Edit::add_response_header(&name.value, &value.value, flag(adds_anyway, true, sink)?);
            finish(call, edit, sink)
        },
    },
    Entry {
        name: "SetResponseHeader",
        doc: "Replaces all values of a response header.",
        args: &[NAME, VALUE],
        check: |call, sink| with_two(call, Edit::set_response_header, sink),
    },
    Entry {
        name: "RemoveResponseHeader",
        doc: "Removes a response header.",
        args: &[NAME],
        check: |call, sink| with_text(call, Edit::remove_response_header, sink),
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
        check: |call, sink| {
            let [name, regexp, replacement] = call.texts(sink)?;
            finish(call, Edit::rewrite_response_header(name, regexp, replacement), sink)
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

fn dedupe(call: &Call<'_>, sink: &mut Sink) -> Option<Filter> {
    let [names, strategy] = call.bind(sink);
    let names = call.written.required(names, "name", sink)?;
    let strategy = constant(strategy, STRATEGIES, sink)?;
    finish(call, Edit::dedupe_response_header(&names.value, strategy), sink)
}

fn location(call: &Call<'_>, sink: &mut Sink) -> Option<Filter> {
    let [strip_version, header, host, protocols] = call.bind(sink);
    let settings = LocationSettings {
        strip_version: constant(strip_version, STRIP_VERSION, sink)?,
        header: match header {
            Some(arg) => header_name(&arg.value, arg.origin, sink)?,
            None => LOCATION,
        },
        host: host.map(|arg| arg.value.clone()),
        protocols: protocols.map_or_else(|| LocationSettings::default().protocols, |arg| arg.value.clone()),
    };
    finish(call, Edit::rewrite_location_response_header(&settings), sink)
}

/// One of Java's constants, by its name in any case, with hyphens or underscores.
fn constant<T: Copy + Default>(arg: Option<&Arg>, known: &[(&str, T)], sink: &mut Sink) -> Option<T> {
    let Some(arg) = arg else { return Some(T::default()) };
    let found = known.iter().find(|(name, _)| canonical(name) == canonical(arg.value.trim()));
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        sink.error(arg.origin, format!("`{}` is none of its values", arg.value)).help(suggest(&arg.value, &names));
    }
    found.map(|(_, value)| *value)
}
