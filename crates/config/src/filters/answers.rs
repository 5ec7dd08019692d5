//! Filters that answer themselves, or say how an answer looks: `RedirectTo`, `RequestSize`, `SetStatus`.

use tollgate_filters::{redirect_to, set_status};

use crate::de::units::parse_size;
use crate::de::values::{flag, status_of};
use crate::diagnostics::{Diagnostics, reasons};
use crate::filters::entry::{Argument, Call, Entry};
use crate::model::Filter;

/// Spring's default for `RequestSize`: 5 000 000 bytes.
const DEFAULT_MAX_SIZE: u64 = 5_000_000;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "RedirectTo",
        doc: "Answers with a redirect; the upstream is not asked.",
        args: &[
            Argument::new("status", "A 3xx status, by number or name."),
            Argument::new("url", "Where to, exactly as it stands in `Location`."),
            Argument::new("includeRequestParams", "Whether the request's query goes along. Default false."),
        ],
        check: redirect,
    },
    Entry {
        name: "RequestSize",
        doc: "Refuses larger request bodies with 413, chunked ones as soon as they are.",
        args: &[Argument::new("maxSize", "Bytes, or a size such as `5MB`. Default 5000000.")],
        check: request_size,
    },
    Entry {
        name: "SetStatus",
        doc: "Replaces the status of the upstream's answer.",
        args: &[Argument::new("status", "By number or name.")],
        check: set_status,
    },
];

fn redirect(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let written = call.written;
    let [status, url, params] = call.bind(diagnostics);
    let (status, url) = (written.required(status, "status", diagnostics)?, written.required(url, "url", diagnostics)?);
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

fn request_size(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [size] = call.bind(diagnostics);
    let Some(arg) = size else { return Some(Filter::RequestSize(DEFAULT_MAX_SIZE)) };
    if diagnostics.is_spring && arg.name.is_none() {
        diagnostics
            .warn(
                arg.span,
                format!(
                    "Spring ignores the argument of `{}` and allows 5000000 bytes; here it holds",
                    call.written.text
                ),
            )
            .help("for the same meaning in both write `name: RequestSize` and `args: {maxSize: …}`");
    }
    parse_size(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok().map(Filter::RequestSize)
}

fn set_status(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [status] = call.bind(diagnostics);
    let status = status_of(call.written.required(status, "status", diagnostics)?, diagnostics)?;
    let header = call.settings.original_status_header.clone();
    Some(Filter::SetStatus(set_status::Settings::new(status, header)))
}
