//! Filters that edit the path and the headers of requests as data.

use tollgate_filters::edit::{Edit, EditError};

use crate::diagnostics::{Diagnostics, reasons};
use crate::filters::entry::{Argument, Call, Entry};
use crate::model::Filter;

pub(super) const NAME: Argument = Argument::new("name", "The header's name.");
pub(super) const VALUE: Argument =
    Argument::new("value", "Its value, which may hold `{variables}` of `Path` and `Host`.");

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "StripPrefix",
        doc: "Drops the first segments of the path.",
        args: &[Argument::new("parts", "How many. Default 1.")],
        check: |call, diagnostics| {
            let [parts] = call.bind(diagnostics);
            let parts = match parts {
                None => 1,
                Some(arg) => arg
                    .value
                    .parse()
                    .map_err(|_| {
                        diagnostics
                            .error(arg.span, format!("expected a number of path segments, found `{}`", arg.value))
                    })
                    .ok()?,
            };
            finish(call, Edit::strip_prefix(parts), diagnostics)
        },
    },
    Entry {
        name: "PrefixPath",
        doc: "Puts a prefix before the path, once a request: a second `PrefixPath` does nothing.",
        args: &[Argument::new("prefix", "The prefix, which may hold `{variables}`.")],
        check: |call, diagnostics| with_path(call, Edit::prefix_path, diagnostics),
    },
    Entry {
        name: "SetPath",
        doc: "Replaces the path and keeps the query.",
        args: &[Argument::new("template", "The new path, which may hold `{variables}`.")],
        check: |call, diagnostics| with_path(call, Edit::set_path, diagnostics),
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
        check: |call, diagnostics| with_two(call, Edit::rewrite_path, diagnostics),
    },
    Entry {
        name: "AddRequestHeader",
        doc: "Adds a value to a request header, behind those of the client.",
        args: &[NAME, VALUE],
        check: |call, diagnostics| with_two(call, Edit::add_request_header, diagnostics),
    },
    Entry {
        name: "SetRequestHeader",
        doc: "Replaces all values of a request header.",
        args: &[NAME, VALUE],
        check: |call, diagnostics| with_two(call, Edit::set_request_header, diagnostics),
    },
    Entry {
        name: "RemoveRequestHeader",
        doc: "Removes a request header.",
        args: &[NAME],
        check: |call, diagnostics| with_text(call, Edit::remove_request_header, diagnostics),
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
        check: |call, diagnostics| with_two(call, Edit::map_request_header, diagnostics),
    },
];

/// `name:value` any number of times, whatever the arguments are called (Spring's GATHER_LIST).
fn add_if_not_present(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    call.written.gather(diagnostics)?;
    let mut pairs = Vec::with_capacity(call.written.args.len());
    for arg in &call.written.args {
        let Some((name, value)) = arg.value.split_once(':').filter(|(_, value)| !value.trim().is_empty()) else {
            diagnostics
                .error(arg.span, format!("expected `name:value`, found `{}`", arg.value))
                .help("separate several by commas: `X-A:1,X-B:2`");
            return None;
        };
        if value.contains(':') && diagnostics.is_spring {
            diagnostics.warn(
                arg.span,
                format!("Spring does not start with a second `:` in `{}`; here it is the value's", arg.value),
            );
        }
        pairs.push((name, value.trim()));
    }
    finish(call, Edit::add_request_headers_if_not_present(pairs), diagnostics)
}

/// The edit, or what is wrong with it at the argument that the message quotes.
pub(super) fn finish(call: &Call<'_>, edit: Result<Edit, EditError>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let complain = |error| {
        let message = reasons(&error);
        diagnostics.error(call.written.quoted_in(&message), message);
    };
    let edit = edit.map_err(complain).ok()?;
    if edit.differs_from_java() {
        diagnostics
            .warn(
                call.written.span,
                "the expression repeats what may be empty: it may match another part than Java's would",
            )
            .help("repeat what takes a character at least: `(a+)*` for `(a*)*`");
    }
    Some(Filter::Edit(edit))
}

/// As [`with_text`] with a path, of which Spring takes what stands before `?` or `#`.
fn with_path(
    call: &Call<'_>,
    edit: fn(&str) -> Result<Edit, EditError>,
    diagnostics: &mut Diagnostics,
) -> Option<Filter> {
    let [text] = call.texts(diagnostics)?;
    let Some((path, rest)) = text.find(['?', '#']).filter(|_| diagnostics.is_spring).map(|at| text.split_at(at)) else {
        return finish(call, edit(text), diagnostics);
    };
    let message = format!("`{}` takes a path alone: `{rest}` is left out, as in Spring", call.written.name);
    diagnostics.warn(call.written.quoted_in(&format!("`{text}`")), message).help("AddRequestParameter adds parameters");
    finish(call, edit(path), diagnostics)
}

pub(super) fn with_text(
    call: &Call<'_>,
    edit: fn(&str) -> Result<Edit, EditError>,
    diagnostics: &mut Diagnostics,
) -> Option<Filter> {
    let [text] = call.texts(diagnostics)?;
    finish(call, edit(text), diagnostics)
}

pub(super) fn with_two(
    call: &Call<'_>,
    edit: fn(&str, &str) -> Result<Edit, EditError>,
    diagnostics: &mut Diagnostics,
) -> Option<Filter> {
    let [first, second] = call.texts(diagnostics)?;
    finish(call, edit(first, second), diagnostics)
}
