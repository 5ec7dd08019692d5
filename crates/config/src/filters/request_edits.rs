//! Filters that edit the path and the headers of requests.

use tollgate_filters::edit::Edit;

use crate::diagnostics::Diagnostics;
use crate::filters::edit::{NAME, VALUE, finish, with_text, with_two};
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::spec::argument::{Argument, ArgumentType};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "StripPrefix",
        doc: "Removes the first segments of the path.",
        args: Arguments::Listed(&[Argument::new("parts", "Number of segments. Default 1.").of(ArgumentType::Number)]),
        check: |input, diagnostics| {
            let [parts] = input.arguments(diagnostics);
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
            finish(input, Edit::strip_prefix(parts), diagnostics)
        },
    },
    Entry {
        name: "PrefixPath",
        doc: "Prepends a prefix to the path; a second `PrefixPath` has no effect.",
        args: Arguments::Listed(&[Argument::new("prefix", "The prefix; may contain `{variables}`.")]),
        check: |input, diagnostics| with_text(input, Edit::prefix_path, diagnostics),
    },
    Entry {
        name: "SetPath",
        doc: "Replaces the path and keeps the query.",
        args: Arguments::Listed(&[Argument::new("template", "The new path; may contain `{variables}`.")]),
        check: |input, diagnostics| with_text(input, Edit::set_path, diagnostics),
    },
    Entry {
        name: "RewritePath",
        doc: "Replaces every match in the path, as Java's `String.replaceAll` does.",
        args: Arguments::Listed(&[
            Argument::new("regexp", "A regular expression, not anchored."),
            Argument::new(
                "replacement",
                "Replacement of each match: `$1`, `$\\{name}` for groups; after a `?`, parameters before those of the request.",
            ),
        ]),
        check: |input, diagnostics| with_two(input, Edit::rewrite_path, diagnostics),
    },
    Entry {
        name: "AddRequestHeader",
        doc: "Adds a value to a request header, after those of the client.",
        args: Arguments::Listed(&[NAME, VALUE]),
        check: |input, diagnostics| with_two(input, Edit::add_request_header, diagnostics),
    },
    Entry {
        name: "SetRequestHeader",
        doc: "Replaces all values of a request header.",
        args: Arguments::Listed(&[NAME, VALUE]),
        check: |input, diagnostics| with_two(input, Edit::set_request_header, diagnostics),
    },
    Entry {
        name: "RemoveRequestHeader",
        doc: "Removes a request header.",
        args: Arguments::Listed(&[NAME]),
        check: |input, diagnostics| with_text(input, Edit::remove_request_header, diagnostics),
    },
    Entry {
        name: "AddRequestHeadersIfNotPresent",
        doc: "Adds request headers that are absent or blank.",
        args: Arguments::Listed(&[Argument::new(
            "keyValues",
            "List of `name:value`; values may contain `{variables}`.",
        )
        .of(ArgumentType::List)]),
        check: add_if_not_present,
    },
    Entry {
        name: "MapRequestHeader",
        doc: "Adds the values of one request header to those of another.",
        args: Arguments::Listed(&[
            Argument::new("fromHeader", "Source header, which stays.").of(ArgumentType::HeaderName),
            Argument::new("toHeader", "Target header.").of(ArgumentType::HeaderName),
        ]),
        check: |input, diagnostics| with_two(input, Edit::map_request_header, diagnostics),
    },
];

/// Reads `name:value` from all arguments, whatever their names (Spring's `GATHER_LIST`).
fn add_if_not_present(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    input.spec.gather(diagnostics)?;
    let mut pairs = Vec::with_capacity(input.spec.args.len());
    for arg in &input.spec.args {
        let Some((name, value)) = arg.value.split_once(':').filter(|(_, value)| !value.trim().is_empty()) else {
            diagnostics
                .error(arg.span, format!("expected `name:value`, found `{}`", arg.value))
                .help("separate several by commas: `X-A:1,X-B:2`");
            return None;
        };
        pairs.push((name, value.trim()));
    }
    finish(input, Edit::add_request_headers_if_not_present(pairs), diagnostics)
}
