//! `SetStatus`.

use tollgate_filters::set_status;

use crate::diagnostics::Diagnostics;
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::values::status_of;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "SetStatus",
    doc: "Replaces the status of the upstream's response.",
    args: Arguments::Listed(&[Argument::new("status", "Status by number or name.").of(ArgumentType::Status)]),
    check: set_status,
}];

fn set_status(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [status] = input.arguments(diagnostics);
    let status = status_of(input.spec.required(status, "status", diagnostics)?, diagnostics)?;
    let header = input.context.original_status_header.clone();
    Some(Filter::SetStatus(set_status::Settings::new(status, header)))
}
