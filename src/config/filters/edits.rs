//! Filters that edit paths and headers as data.

use tollgate_filters::edit::{Edit, EditError};

use super::super::model::Filter;
use super::super::problem::{Sink, reasons};
use super::super::values::flag;
use super::{Argument, Call, Entry};

const NAME: Argument = Argument::new("name", "The header's name.");
const VALUE: Argument = Argument::new("value", "Its value, which may hold `{variables}` of `Path` and `Host`.");

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "StripPrefix",
        doc: "Drops the first segments of the path.",
        args: &[Argument::new("parts", "How many. Default 1.")],
        check: |call, sink| {
            let [parts] = call.bind(sink);
            let parts = match parts {
                None => 1,
                Some(arg) => arg
                    .value
                    .parse()
                    .map_err(|_| {
                        sink.error(arg.origin, format!("expected a number of path segments, found `{}`", arg.value))
                    })
                    .ok()?,
            };
            finish(call, Edit::strip_prefix(parts), sink)
        },
    },
    Entry {
        name: "PrefixPath",
        doc: "Puts a prefix before the path, once a request: a second `PrefixPath` does nothing.",
        args: &[Argument::new("prefix", "The prefix, which may hold `{variables}`.")],
        check: |call, sink| with_text(call, Edit::prefix_path, sink),
    },
    Entry {
        name: "SetPath",
        doc: "Replaces the path and keeps the query.",
        args: &[Argument::new("template", "The new path, which may hold `{variables}`.")],
        check: |call, sink| with_text(call, Edit::set_path, sink),
    },
    Entry {
        name: "RewritePath",
        doc: "Replaces every match in the path, as Java's `String.replaceAll` does.",
        args: &[
            Argument::new("regexp", "A regular expression, not anchored."),
            Argument::new("replacement", "What its matches become: `$1`, `$\\{name}` for groups."),
        ],
        check: |call, sink| with_two(call, Edit::rewrite_path, sink),
    },
    Entry {
        name: "AddRequestHeader",
        doc: "Adds a value to a request header, behind those of the client.",
        args: &[NAME, VALUE],
        check: |call, sink| with_two(call, Edit::add_request_header, sink),
    },
    Entry {
        name: "SetRequestHeader",
        doc: "Replaces all values of a request header.",
        args: &[NAME, VALUE],
        check: |call, sink| with_two(call, Edit::set_request_header, sink),
    },
    Entry {
        name: "RemoveRequestHeader",
        doc: "Removes a request header.",
        args: &[NAME],
        check: |call, sink| with_text(call, Edit::remove_request_header, sink),
    },
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
        name: "PreserveHostHeader",
        doc: "Sends the client's own `Host` upstream.",
        args: &[],
        check: |call, sink| {
            let [] = call.bind(sink);
            Some(Filter::Edit(Edit::preserve_host_header()))
        },
    },
];

/// The edit, or what is wrong with it at the argument that the message quotes.
fn finish(call: &Call<'_>, edit: Result<Edit, EditError>, sink: &mut Sink) -> Option<Filter> {
    let complain = |error| {
        let message = reasons(&error);
        sink.error(call.written.quoted_in(&message), message);
    };
    edit.map_err(complain).ok().map(Filter::Edit)
}

fn with_text(call: &Call<'_>, edit: fn(&str) -> Result<Edit, EditError>, sink: &mut Sink) -> Option<Filter> {
    let [text] = call.texts(sink)?;
    finish(call, edit(text), sink)
}

fn with_two(call: &Call<'_>, edit: fn(&str, &str) -> Result<Edit, EditError>, sink: &mut Sink) -> Option<Filter> {
    let [first, second] = call.texts(sink)?;
    finish(call, edit(first, second), sink)
}
