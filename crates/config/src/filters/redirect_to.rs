//! `RedirectTo`.

use tollgate_filters::redirect_to;

use crate::diagnostics::{Diagnostics, reasons};
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::values::{flag, status_of};

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "RedirectTo",
    doc: "Responds with a redirect and does not call the upstream.",
    args: Arguments::Listed(&[
        Argument::new("status", "A 3xx status, by number or name.").of(ArgumentType::Status),
        Argument::new("url", "Target, exactly as in `Location`."),
        Argument::new("includeRequestParams", "Appends the query of the request. Default false.")
            .of(ArgumentType::Flag),
    ]),
    check: redirect,
}];

fn redirect(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let spec = input.spec;
    let [status, url, params] = input.arguments(diagnostics);
    let (status, url) = (spec.required(status, "status", diagnostics)?, spec.required(url, "url", diagnostics)?);
    let code = status_of(status, diagnostics)?;
    if !code.is_redirection() {
        diagnostics.error(status.span, format!("`RedirectTo` needs a 3xx status, found `{}`", status.value));
        return None;
    }
    redirect_to::Settings::new(code, &url.value, flag(params, false, diagnostics)?)
        .map_err(|error| diagnostics.error(url.span, reasons(&error)))
        .ok()
        .map(Filter::RedirectTo)
}
