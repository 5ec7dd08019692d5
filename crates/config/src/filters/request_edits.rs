//! Filters that edit the path, the query and the headers of requests.

use tollgate_filters::edit::Edit;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::model::Filter;
use crate::filters::row::{Arguments, Entry, FilterInput, edit};
use crate::spec::{HeaderText, Segments, Shortcut, Text};

/// Argument of `StripPrefix`.
#[arguments]
struct StripPrefixArgs {
    /// Number of segments. Default 1.
    parts: Option<Segments>,
}

/// Argument of `PrefixPath`.
#[arguments]
struct PrefixPathArgs {
    /// The prefix; may contain `{variables}`.
    prefix: Text,
}

/// Argument of `SetPath`.
#[arguments]
struct SetPathArgs {
    /// The new path; may contain `{variables}`.
    template: Text,
}

/// Arguments of `RewritePath`.
#[arguments]
struct RewritePathArgs {
    /// A regular expression, not anchored.
    regexp: Text,
    /// Replacement of each match: `$1`, `$\{name}` for groups; after a `?`, parameters before those of the request.
    replacement: Text,
}

/// A header and its value.
#[arguments]
pub(super) struct HeaderArgs {
    /// Header name.
    pub(super) name: HeaderText,
    /// Its value; may contain `{variables}` of `Path` and `Host`.
    pub(super) value: Text,
}

/// A header.
#[arguments]
pub(super) struct HeaderNameArgs {
    /// Header name.
    pub(super) name: HeaderText,
}

/// Fields that `AddRequestHeadersIfNotPresent` adds at most: a request has room for about thirty times as many.
const MAX_FIELDS: usize = 1_000;

/// Argument of `AddRequestHeadersIfNotPresent`.
#[arguments]
struct HeaderListArgs {
    /// List of `name:value`; values may contain `{variables}`.
    key_values: Vec<Spanned<Text>>,
}

/// Arguments of `MapRequestHeader`.
#[arguments]
struct MapHeaderArgs {
    /// Source header, which stays.
    from_header: HeaderText,
    /// Target header.
    to_header: HeaderText,
}

/// A parameter and its value.
#[arguments]
struct ParameterArgs {
    /// Parameter name.
    name: Text,
    /// Its value; may contain `{variables}` of `Path` and `Host`.
    value: Text,
}

/// A parameter.
#[arguments]
struct ParameterNameArgs {
    /// Parameter name.
    name: Text,
}

/// A parameter and its new value.
#[arguments]
struct RewriteParameterArgs {
    /// Parameter name.
    name: Text,
    /// The new value, not encoded.
    replacement: Text,
}

pub(super) const ENTRIES: &[Entry] = &[
    edit! {
        "StripPrefix"(StripPrefixArgs) "Removes the first segments of the path.":
        |args| Edit::strip_prefix(args.parts.map_or(1, |parts| parts.0))
    },
    edit! {
        "PrefixPath"(PrefixPathArgs) "Prepends a prefix to the path; a second `PrefixPath` has no effect.":
        |args| Edit::prefix_path(&args.prefix)
    },
    edit! {
        "SetPath"(SetPathArgs) "Replaces the path and keeps the query.":
        |args| Edit::set_path(&args.template)
    },
    edit! {
        "RewritePath"(RewritePathArgs) "Replaces every match in the path, as Java's `String.replaceAll` does.":
        |args| Edit::rewrite_path(&args.regexp, &args.replacement)
    },
    edit! {
        "AddRequestHeader"(HeaderArgs) "Adds a value to a request header, after those of the client.":
        |args| Edit::add_request_header(&args.name, &args.value)
    },
    edit! {
        "SetRequestHeader"(HeaderArgs) "Replaces all values of a request header.":
        |args| Edit::set_request_header(&args.name, &args.value)
    },
    edit! {
        "RemoveRequestHeader"(HeaderNameArgs) "Removes a request header.":
        |args| Edit::remove_request_header(&args.name)
    },
    Entry {
        name: "AddRequestHeadersIfNotPresent",
        doc: "Adds request headers that are absent or blank.",
        args: Arguments::of::<HeaderListArgs>(Shortcut::List),
        check: add_if_not_present,
    },
    edit! {
        "MapRequestHeader"(MapHeaderArgs) "Adds the values of one request header to those of another.":
        |args| Edit::map_request_header(&args.from_header, &args.to_header)
    },
    edit! {
        "AddRequestParameter"(ParameterArgs) "Appends a parameter to the query, which stays unchanged.":
        |args| Edit::add_request_parameter(&args.name, &args.value)
    },
    edit! {
        "RemoveRequestParameter"(ParameterNameArgs) "Removes all parameters of a name; the others are encoded again.":
        |args| Edit::remove_request_parameter(&args.name)
    },
    edit! {
        "RewriteRequestParameter"(RewriteParameterArgs) "Replaces all parameters of a name by one at the end; the others are encoded again.":
        |args| Edit::rewrite_request_parameter(&args.name, &args.replacement)
    },
];

fn add_if_not_present(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: HeaderListArgs = input.read(diagnostics)?;
    if let (count, Some(Spanned { span, .. })) = (args.key_values.len(), args.key_values.get(MAX_FIELDS)) {
        let error = diagnostics.error(*span, format!("{count} header fields are more than a request can carry"));
        return Err(error.reported_with("at most 1,000 are possible, and upstreams refuse more than some hundred"));
    }
    let mut pairs = Vec::with_capacity(args.key_values.len());
    for Spanned { value: pair, span } in &args.key_values {
        let Some((name, value)) = pair.split_once(':').filter(|(_, value)| !value.trim().is_empty()) else {
            let error = diagnostics.error(*span, format!("expected `name:value`, found `{}`", &**pair));
            return Err(error.reported_with("separate several by commas: `X-A:1,X-B:2`"));
        };
        pairs.push((name, value.trim()));
    }
    input.finish(Edit::add_request_headers_if_not_present(pairs), diagnostics)
}
