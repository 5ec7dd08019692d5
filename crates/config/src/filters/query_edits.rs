//! Filters that edit the query.

use serde::Deserialize;
use tollgate_filters::edit::Edit;

use crate::filters::row::{Arguments, Entry};
#[cfg(test)]
use crate::spec::schema::arguments;
use crate::spec::tree::Shortcut;
use crate::spec::types::Text;

/// A parameter and its value.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(transform = arguments))]
struct ParameterArgs {
    /// Parameter name.
    name: Text,
    /// Its value; may contain `{variables}` of `Path` and `Host`.
    value: Text,
}

/// A parameter.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(transform = arguments))]
struct ParameterNameArgs {
    /// Parameter name.
    name: Text,
}

/// A parameter and its new value.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(transform = arguments))]
struct RewriteParameterArgs {
    /// Parameter name.
    name: Text,
    /// The new value, not encoded.
    replacement: Text,
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "AddRequestParameter",
        doc: "Appends a parameter to the query, which stays unchanged.",
        args: Arguments::of::<ParameterArgs>(Shortcut::All),
        check: |input, diagnostics| {
            input.edit(|args: &ParameterArgs| Edit::add_request_parameter(&args.name, &args.value), diagnostics)
        },
    },
    Entry {
        name: "RemoveRequestParameter",
        doc: "Removes all parameters of a name; the others are encoded again.",
        args: Arguments::of::<ParameterNameArgs>(Shortcut::All),
        check: |input, diagnostics| {
            input.edit(|args: &ParameterNameArgs| Edit::remove_request_parameter(&args.name), diagnostics)
        },
    },
    Entry {
        name: "RewriteRequestParameter",
        doc: "Replaces all parameters of a name by one at the end; the others are encoded again.",
        args: Arguments::of::<RewriteParameterArgs>(Shortcut::All),
        check: |input, diagnostics| {
            let edit = |args: &RewriteParameterArgs| Edit::rewrite_request_parameter(&args.name, &args.replacement);
            input.edit(edit, diagnostics)
        },
    },
];
