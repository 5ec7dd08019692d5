//! Values that several sections and filters read alike.

use std::time::Duration;

use http::StatusCode;
use http::header::HeaderName;

use crate::de::arg::Arg;
use crate::de::spanned::Spanned;
use crate::de::status::parse_status;
use crate::de::units::Time;
use crate::diagnostics::Diagnostics;
use crate::yaml::Span;

/// Reads `true` or `false`.
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

/// Reads a status.
pub(crate) fn status_of(arg: &Arg, diagnostics: &mut Diagnostics) -> Option<StatusCode> {
    parse_status(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()
}

/// Reads the status that a refusal is answered with: one that says so to every client.
pub(crate) fn refusal_of(arg: &Arg, diagnostics: &mut Diagnostics) -> Option<StatusCode> {
    let status = status_of(arg, diagnostics)?;
    refusal(status, arg.span, diagnostics);
    Some(status)
}

/// Complains about a status that tells a client whose request was refused that all is well.
pub(crate) fn refusal(status: StatusCode, at: Span, diagnostics: &mut Diagnostics) {
    if !status.is_client_error() && !status.is_server_error() {
        diagnostics
            .mistake(at, format!("a refusal is answered with a status from 400 to 599, found {}", status.as_u16()))
            .help("429 is Too Many Requests, 403 Forbidden, 503 Service Unavailable");
    }
}

/// Reads a header's name.
pub(crate) fn header_name(text: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<HeaderName> {
    HeaderName::from_bytes(text.trim().as_bytes())
        .map_err(|_| diagnostics.error(at, format!("`{text}` is not a header's name")))
        .ok()
}

/// Reads a duration above zero; `None` is the default.
pub(crate) fn positive(time: Option<Spanned<Time>>, default_secs: u64, diagnostics: &mut Diagnostics) -> Duration {
    match time {
        None => Duration::from_secs(default_secs),
        Some(time) => {
            if time.value.0.is_zero() {
                diagnostics.error(time.span, "must be longer than 0").help("remove the key for the default");
            }
            time.value.0
        }
    }
}
