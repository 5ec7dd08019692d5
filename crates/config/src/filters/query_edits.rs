//! Filters that edit the query as data.

use tollgate_filters::edit::Edit;

use crate::filters::edit::{with_text, with_two};
use crate::filters::entry::{Arguments, Entry};
use crate::spec::argument::Argument;

const NAME: Argument = Argument::new("name", "The parameter's name.");

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "AddRequestParameter",
        doc: "Adds a parameter behind the query, which stays as the client wrote it.",
        args: Arguments::Listed(&[
            NAME,
            Argument::new("value", "Its value, which may hold `{variables}` of `Path` and `Host`."),
        ]),
        check: |input, diagnostics| with_two(input, Edit::add_request_parameter, diagnostics),
    },
    Entry {
        name: "RemoveRequestParameter",
        doc: "Removes all parameters of a name; the others are encoded anew.",
        args: Arguments::Listed(&[NAME]),
        check: |input, diagnostics| with_text(input, Edit::remove_request_parameter, diagnostics),
    },
    Entry {
        name: "RewriteRequestParameter",
        doc: "Replaces all parameters of a name by one behind the others, which are encoded anew.",
        args: Arguments::Listed(&[NAME, Argument::new("replacement", "The new value, not encoded.")]),
        check: |input, diagnostics| with_two(input, Edit::rewrite_request_parameter, diagnostics),
    },
];
