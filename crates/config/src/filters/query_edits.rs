//! Filters that edit the query.

use tollgate_filters::edit::Edit;

use crate::filters::edit::{with_text, with_two};
use crate::filters::entry::{Arguments, Entry};
use crate::spec::argument::Argument;

const NAME: Argument = Argument::new("name", "Parameter name.");

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "AddRequestParameter",
        doc: "Appends a parameter to the query, which stays unchanged.",
        args: Arguments::Listed(&[
            NAME,
            Argument::new("value", "Its value; may contain `{variables}` of `Path` and `Host`."),
        ]),
        check: |input, diagnostics| with_two(input, Edit::add_request_parameter, diagnostics),
    },
    Entry {
        name: "RemoveRequestParameter",
        doc: "Removes all parameters of a name; the others are encoded again.",
        args: Arguments::Listed(&[NAME]),
        check: |input, diagnostics| with_text(input, Edit::remove_request_parameter, diagnostics),
    },
    Entry {
        name: "RewriteRequestParameter",
        doc: "Replaces all parameters of a name by one at the end; the others are encoded again.",
        args: Arguments::Listed(&[NAME, Argument::new("replacement", "The new value, not encoded.")]),
        check: |input, diagnostics| with_two(input, Edit::rewrite_request_parameter, diagnostics),
    },
];
