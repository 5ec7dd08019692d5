//! Helpers for filters that edit requests and responses as data.

use tollgate_filters::edit::{Edit, EditError};

use crate::diagnostics::{Diagnostics, reasons};
use crate::filters::entry::FilterInput;
use crate::filters::model::Filter;
use crate::spec::argument::{Argument, ArgumentType};

pub(super) const NAME: Argument = Argument::new("name", "Header name.").of(ArgumentType::HeaderName);
pub(super) const VALUE: Argument = Argument::new("value", "Its value; may contain `{variables}` of `Path` and `Host`.");

/// Returns the edit as a filter, or reports its error at the argument that the message quotes.
pub(super) fn finish(
    input: &FilterInput<'_>,
    edit: Result<Edit, EditError>,
    diagnostics: &mut Diagnostics,
) -> Option<Filter> {
    let complain = |error| {
        let message = reasons(&error);
        diagnostics.error(input.spec.quoted_in(&message), message);
    };
    let edit = edit.map_err(complain).ok()?;
    if edit.differs_from_java() {
        diagnostics
            .warn(input.spec.span, "the expression repeats a part that can be empty: Java may match differently")
            .help("repeat a part that cannot be empty: `(a+)*` for `(a*)*`");
    }
    Some(Filter::Edit(edit))
}

pub(super) fn with_text(
    input: &FilterInput<'_>,
    edit: fn(&str) -> Result<Edit, EditError>,
    diagnostics: &mut Diagnostics,
) -> Option<Filter> {
    let [text] = input.texts(diagnostics)?;
    finish(input, edit(text), diagnostics)
}

pub(super) fn with_two(
    input: &FilterInput<'_>,
    edit: fn(&str, &str) -> Result<Edit, EditError>,
    diagnostics: &mut Diagnostics,
) -> Option<Filter> {
    let [first, second] = input.texts(diagnostics)?;
    finish(input, edit(first, second), diagnostics)
}
