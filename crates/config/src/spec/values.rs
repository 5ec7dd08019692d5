//! Single arguments and header names as values.

use http::StatusCode;
use http::header::HeaderName;

use crate::de::spanned::Spanned;
use crate::de::status::parse_status;
use crate::de::units::Size;
use crate::diagnostics::Diagnostics;
use crate::spec::definition::Arg;
use crate::yaml::Span;

/// Reads `true` or `false`; `default` if the argument is absent.
pub(crate) fn flag(arg: Option<&Arg>, default: bool, diagnostics: &mut Diagnostics) -> Option<bool> {
    let Some(arg) = arg else { return Some(default) };
    match arg.value.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => {
            diagnostics.error(arg.span, format!("expected true or false, found `{}`", arg.value));
            None
        }
    }
}

/// Reads a status: a number or Spring's name.
pub(crate) fn status_of(arg: &Arg, diagnostics: &mut Diagnostics) -> Option<StatusCode> {
    parse_status(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()
}

/// Reports a denial status that is not an error status.
pub(crate) fn refusal(status: StatusCode, at: Span, diagnostics: &mut Diagnostics) {
    if !status.is_client_error() && !status.is_server_error() {
        diagnostics
            .mistake(at, format!("expected an error status from 400 to 599, found {}", status.as_u16()))
            .help("429 is Too Many Requests, 403 Forbidden, 503 Service Unavailable");
    }
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
