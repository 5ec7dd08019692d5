//! Arguments of predicates and filters as values.

use http::StatusCode;
use http::header::HeaderName;

use super::definition::Arg;
use super::problem::Sink;
use super::status::parse_status;
use super::yaml::Origin;

/// Reads `true` or `false`.
pub(crate) fn flag(arg: Option<&Arg>, default: bool, sink: &mut Sink) -> Option<bool> {
    let Some(arg) = arg else { return Some(default) };
    match arg.value.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => {
            sink.error(arg.origin, format!("expected true or false, found `{}`", arg.value));
            None
        }
    }
}

/// Reads a status.
pub(crate) fn status_of(arg: &Arg, sink: &mut Sink) -> Option<StatusCode> {
    parse_status(&arg.value).map_err(|message| sink.error(arg.origin, message)).ok()
}

/// Reads the status that a refusal is answered with: one that says so to every client.
pub(crate) fn refusal_of(arg: &Arg, sink: &mut Sink) -> Option<StatusCode> {
    let status = status_of(arg, sink)?;
    refusal(status, arg.origin, sink);
    Some(status)
}

/// Complains about a status that tells a client whose request was refused that all is well.
pub(crate) fn refusal(status: StatusCode, at: Origin, sink: &mut Sink) {
    if !status.is_client_error() && !status.is_server_error() {
        sink.mistake(at, format!("a refusal is answered with a status from 400 to 599, found {}", status.as_u16()))
            .help("429 is Too Many Requests, 403 Forbidden, 503 Service Unavailable");
    }
}

/// Reads a header's name.
pub(crate) fn header_name(text: &str, at: Origin, sink: &mut Sink) -> Option<HeaderName> {
    HeaderName::from_bytes(text.trim().as_bytes())
        .map_err(|_| sink.error(at, format!("`{text}` is not a header's name")))
        .ok()
}
