//! Filters as written to filters that run.

use http::header::HeaderName;
use tollgate_filters::edit::Edit;
use tollgate_filters::{redirect_to, set_status};

use super::check_concurrency;
use super::check_request_counter;
use super::definition::{Arg, Written};
use super::limiter::{self, Limits};
use super::model::Filter;
use super::names::{FILTERS, Known, look_up};
use super::problem::{Sink, closest, reasons};
use super::status::parse_status;
use super::units::parse_size;

/// Spring's default for `RequestSize`: 5 000 000 bytes.
const DEFAULT_MAX_SIZE: u64 = 5_000_000;

/// The filter that `written` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(written: &Written, limits: &Limits<'_>, sink: &mut Sink) -> Option<Filter> {
    match written.name.as_str() {
        "RequestRateLimiter" => {
            limiter::check(written, limits, sink).map(|limiter| Filter::RequestRateLimiter(Box::new(limiter)))
        }
        "RequestCounter" => {
            check_request_counter::check(written, limits, sink).map(|counter| Filter::RequestCounter(Box::new(counter)))
        }
        "ConcurrencyLimiter" => {
            check_concurrency::check(written, limits, sink).map(|limiter| Filter::ConcurrencyLimiter(Box::new(limiter)))
        }
        "RequestSize" => request_size(written, sink).map(Filter::RequestSize),
        "RedirectTo" => redirect(written, sink).map(Filter::RedirectTo),
        "SetStatus" => {
            let [status] = written.bind(["status"], sink);
            let status = status_of(written.required(status, "status", sink)?, sink)?;
            Some(Filter::SetStatus(set_status::Settings::new(status, limits.original_status_header.clone())))
        }
        _ => edit(written, sink).map(Filter::Edit),
    }
}

fn edit(written: &Written, sink: &mut Sink) -> Option<Edit> {
    let result = match written.name.as_str() {
        "StripPrefix" => {
            let [parts] = written.bind(["parts"], sink);
            Edit::strip_prefix(match parts {
                None => 1,
                Some(arg) => arg
                    .value
                    .parse()
                    .map_err(|_| {
                        sink.error(arg.origin, format!("expected a number of path segments, found `{}`", arg.value))
                    })
                    .ok()?,
            })
        }
        "PrefixPath" => Edit::prefix_path(one(written, "prefix", sink)?),
        "SetPath" => Edit::set_path(one(written, "template", sink)?),
        "RewritePath" => {
            let (regexp, replacement) = two(written, "regexp", "replacement", sink)?;
            Edit::rewrite_path(regexp, replacement)
        }
        "AddRequestHeader" => {
            let (name, value) = two(written, "name", "value", sink)?;
            Edit::add_request_header(name, value)
        }
        "SetRequestHeader" => {
            let (name, value) = two(written, "name", "value", sink)?;
            Edit::set_request_header(name, value)
        }
        "RemoveRequestHeader" => Edit::remove_request_header(one(written, "name", sink)?),
        "AddResponseHeader" => {
            let [name, value, adds_anyway] = written.bind(["name", "value", "override"], sink);
            let (name, value) = (written.required(name, "name", sink)?, written.required(value, "value", sink)?);
            Edit::add_response_header(&name.value, &value.value, flag(adds_anyway, true, sink)?)
        }
        "SetResponseHeader" => {
            let (name, value) = two(written, "name", "value", sink)?;
            Edit::set_response_header(name, value)
        }
        "RemoveResponseHeader" => Edit::remove_response_header(one(written, "name", sink)?),
        "PreserveHostHeader" => {
            let [] = written.bind([], sink);
            Ok(Edit::preserve_host_header())
        }
        name => {
            unknown(written, name, sink);
            return None;
        }
    };
    let complain = |error| {
        let message = reasons(&error);
        sink.error(written.quoted_in(&message), message);
    };
    result.map_err(complain).ok()
}

fn one<'w>(written: &'w Written, field: &str, sink: &mut Sink) -> Option<&'w str> {
    let [arg] = written.bind([field], sink);
    Some(&written.required(arg, field, sink)?.value)
}

fn two<'w>(written: &'w Written, first: &str, second: &str, sink: &mut Sink) -> Option<(&'w str, &'w str)> {
    let [a, b] = written.bind([first, second], sink);
    Some((&written.required(a, first, sink)?.value, &written.required(b, second, sink)?.value))
}

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
pub(crate) fn status_of(arg: &Arg, sink: &mut Sink) -> Option<http::StatusCode> {
    parse_status(&arg.value).map_err(|message| sink.error(arg.origin, message)).ok()
}

/// Reads the status that a refusal is answered with: one that says so to every client.
pub(crate) fn refusal_of(arg: &Arg, sink: &mut Sink) -> Option<http::StatusCode> {
    let status = status_of(arg, sink)?;
    refusal(status, arg.origin, sink);
    Some(status)
}

/// Complains about a status that tells a client whose request was refused that all is well.
pub(crate) fn refusal(status: http::StatusCode, at: super::yaml::Origin, sink: &mut Sink) {
    if !status.is_client_error() && !status.is_server_error() {
        sink.mistake(at, format!("a refusal is answered with a status from 400 to 599, found {}", status.as_u16()))
            .help("429 is Too Many Requests, 403 Forbidden, 503 Service Unavailable");
    }
}

/// Reads a header's name.
pub(crate) fn header_name(text: &str, at: super::yaml::Origin, sink: &mut Sink) -> Option<HeaderName> {
    HeaderName::from_bytes(text.trim().as_bytes())
        .map_err(|_| sink.error(at, format!("`{text}` is not a header's name")))
        .ok()
}

fn request_size(written: &Written, sink: &mut Sink) -> Option<u64> {
    let [size] = written.bind(["maxSize"], sink);
    let Some(arg) = size else { return Some(DEFAULT_MAX_SIZE) };
    if sink.is_spring && arg.name.is_none() {
        sink.warn(
            arg.origin,
            format!("Spring ignores the argument of `{}` and allows 5000000 bytes; here it holds", written.text),
        )
        .help("for the same meaning in both write `name: RequestSize` and `args: {maxSize: …}`");
    }
    parse_size(&arg.value).map_err(|message| sink.error(arg.origin, message)).ok()
}

fn redirect(written: &Written, sink: &mut Sink) -> Option<redirect_to::Settings> {
    let [status, url, params] = written.bind(["status", "url", "includeRequestParams"], sink);
    let (status, url) = (written.required(status, "status", sink)?, written.required(url, "url", sink)?);
    let code = status_of(status, sink)?;
    if !code.is_redirection() {
        sink.error(status.origin, format!("`RedirectTo` needs a 3xx status, found `{}`", status.value));
        return None;
    }
    redirect_to::Settings::new(code, &url.value, flag(params, false, sink)?)
        .map_err(|error| sink.error(url.origin, reasons(&error)))
        .ok()
}

fn unknown(written: &Written, name: &str, sink: &mut Sink) {
    match look_up(name) {
        Known::Later => sink
            .error(written.origin, format!("filter `{name}` is not supported yet"))
            .help("remove it, or keep this route on Spring Cloud Gateway for now"),
        Known::Refused(why, instead) => {
            sink.error(written.origin, format!("filter `{name}` cannot be used: {why}")).help(instead)
        }
        Known::No => {
            sink.error(written.origin, format!("unknown filter `{name}`")).help(match closest(name, FILTERS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("filters: {}", FILTERS.join(", ")),
            })
        }
    }
}
