//! Filters that edit the path and the headers of requests as data.

use tollgate_filters::edit::{Edit, EditError};

use super::super::model::Filter;
use super::super::problem::{Sink, reasons};
use super::{Argument, Call, Entry};

pub(super) const NAME: Argument = Argument::new("name", "The header's name.");
pub(super) const VALUE: Argument =
    Argument::new("value", "Its value, which may hold `{variables}` of `Path` and `Host`.");

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
        check: |call, sink| with_path(call, Edit::prefix_path, sink),
    },
    Entry {
        name: "SetPath",
        doc: "Replaces the path and keeps the query.",
        args: &[Argument::new("template", "The new path, which may hold `{variables}`.")],
        check: |call, sink| with_path(call, Edit::set_path, sink),
    },
    Entry {
        name: "RewritePath",
        doc: "Replaces every match in the path, as Java's `String.replaceAll` does.",
        args: &[
            Argument::new("regexp", "A regular expression, not anchored."),
            Argument::new(
                "replacement",
                "What its matches become: `$1`, `$\\{name}` for groups; behind a `?`, parameters before the request's.",
            ),
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
        name: "AddRequestHeadersIfNotPresent",
        doc: "Adds request headers that the client sent none of, or blank ones.",
        args: &[Argument::new("keyValues", "Any number of `name:value`; values may hold `{variables}`.")],
        check: add_if_not_present,
    },
    Entry {
        name: "MapRequestHeader",
        doc: "Adds the values of one request header to those of another.",
        args: &[
            Argument::new("fromHeader", "The header that is read and stays."),
            Argument::new("toHeader", "The header that gets the values."),
        ],
        check: |call, sink| with_two(call, Edit::map_request_header, sink),
    },
];

/// `name:value` any number of times, whatever the arguments are called (Spring's GATHER_LIST).
fn add_if_not_present(call: &Call<'_>, sink: &mut Sink) -> Option<Filter> {
    call.written.gather(sink)?;
    let mut pairs = Vec::with_capacity(call.written.args.len());
    for arg in &call.written.args {
        let Some((name, value)) = arg.value.split_once(':').filter(|(_, value)| !value.trim().is_empty()) else {
            sink.error(arg.origin, format!("expected `name:value`, found `{}`", arg.value))
                .help("separate several by commas: `X-A:1,X-B:2`");
            return None;
        };
        if value.contains(':') && sink.is_spring {
            sink.warn(
                arg.origin,
                format!("Spring does not start with a second `:` in `{}`; here it is the value's", arg.value),
            );
        }
        pairs.push((name, value.trim()));
    }
    finish(call, Edit::add_request_headers_if_not_present(pairs), sink)
}

/// The edit, or what is wrong with it at the argument that the message quotes.
pub(super) fn finish(call: &Call<'_>, edit: Result<Edit, EditError>, sink: &mut Sink) -> Option<Filter> {
    let complain = |error| {
        let message = reasons(&error);
        sink.error(call.written.quoted_in(&message), message);
    };
    let edit = edit.map_err(complain).ok()?;
    if edit.differs_from_java() {
        sink.warn(
            call.written.origin,
            "the expression repeats what may be empty: it may match another part than Java's would",
        )
        .help("repeat what takes a character at least: `(a+)*` for `(a*)*`");
    }
    Some(Filter::Edit(edit))
}

/// As [`with_text`] with a path, of which Spring takes what stands before `?` or `#`.
fn with_path(call: &Call<'_>, edit: fn(&str) -> Result<Edit, EditError>, sink: &mut Sink) -> Option<Filter> {
    let [text] = call.texts(sink)?;
    let Some((path, rest)) = text.find(['?', '#']).filter(|_| sink.is_spring).map(|at| text.split_at(at)) else {
        return finish(call, edit(text), sink);
    };
    let message = format!("`{}` takes a path alone: `{rest}` is left out, as in Spring", call.written.name);
    sink.warn(call.written.quoted_in(&format!("`{text}`")), message).help("AddRequestParameter adds parameters");
    finish(call, edit(path), sink)
}

pub(super) fn with_text(call: &Call<'_>, edit: fn(&str) -> Result<Edit, EditError>, sink: &mut Sink) -> Option<Filter> {
    let [text] = call.texts(sink)?;
    finish(call, edit(text), sink)
}

pub(super) fn with_two(
    call: &Call<'_>,
    edit: fn(&str, &str) -> Result<Edit, EditError>,
    sink: &mut Sink,
) -> Option<Filter> {
    let [first, second] = call.texts(sink)?;
    finish(call, edit(first, second), sink)
}
