//! Single arguments and header names as values.

use http::StatusCode;
use http::header::HeaderName;

use crate::de::{Size, Spanned, parse_flag};
use crate::diagnostics::{Diagnostics, Reported};
use crate::spec::argument_types::Status;
use crate::spec::definition::Arg;
use crate::yaml::Span;

/// Reads `true` or `false`.
pub(crate) fn flag(arg: &Arg, diagnostics: &mut Diagnostics) -> Result<bool, Reported> {
    parse_flag(&arg.value)
        .ok_or_else(|| diagnostics.error(arg.span, format!("expected true or false, found `{}`", arg.value)).reported())
}

/// Returns the status of refusals, or `default` if absent. Reports one that is not an error status.
pub(crate) fn refusal(
    status: Option<Spanned<Status>>,
    default: StatusCode,
    diagnostics: &mut Diagnostics,
) -> StatusCode {
    let Some(Spanned { value: Status(status), span }) = status else { return default };
    if !status.is_client_error() && !status.is_server_error() {
        diagnostics
            .mistake(span, format!("expected an error status from 400 to 599, found {}", status.as_u16()))
            .help("429 is Too Many Requests, 403 Forbidden, 503 Service Unavailable");
    }
    status
}

/// Reads a header name.
pub(crate) fn header_name(text: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<HeaderName> {
    HeaderName::from_bytes(text.trim().as_bytes())
        .map_err(|_| diagnostics.error(at, format!("`{text}` is not a valid header name")))
        .ok()
}

/// Returns the bytes of `size`, or `default` if absent. Reports 0.
pub(crate) fn above_zero(size: Option<&Spanned<Size>>, default: u64, diagnostics: &mut Diagnostics) -> u64 {
    let Some(size) = size else { return default };
    if size.value.0 == 0 {
        diagnostics.error(size.span, "must be more than 0 bytes");
    }
    size.value.0
}
