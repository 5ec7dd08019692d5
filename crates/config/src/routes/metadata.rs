//! `metadata` of a route.

use std::sync::Arc;

use crate::de::{LEAST_BARE_MILLIS, Timeout, bare_millis, canonical, parse_time, parse_timeout, warn_of_bare_millis};
use crate::diagnostics::Diagnostics;
use crate::routes::model::Route;
use crate::sections::http_client::Http2;
use crate::spec::{Arg, flatten};
use crate::yaml::{Node, NodeKind};

/// Reads the keys of `metadata` that have a meaning. Spring looks them up literally; times are in milliseconds.
pub(super) fn read_metadata(node: &Node, route: &mut Route, diagnostics: &mut Diagnostics) {
    if !matches!(node.kind, NodeKind::Map(_)) {
        diagnostics.error(node.span, format!("expected a map, found {}", node.describe()));
        return;
    }
    if let Some(tls) = node.get("tls") {
        route.tls = crate::sections::tls::client::check(tls, diagnostics).map(Arc::new);
    }
    let mut entries = Vec::new();
    flatten("", node, &mut entries);
    for entry in entries {
        read_entry(&entry, route, diagnostics);
        route.definition.metadata.insert(entry.name.unwrap_or_default(), entry.value);
    }
}

fn read_entry(entry: &Arg, route: &mut Route, diagnostics: &mut Diagnostics) {
    let name = entry.name.as_deref().unwrap_or_default();
    if ["connect-timeout", "response-timeout", "read-timeout", "body-timeout"].contains(&name)
        && let Some(number) = bare_millis(&entry.value, LEAST_BARE_MILLIS)
    {
        warn_of_bare_millis(name, number, entry.span, diagnostics);
    }
    match name {
        "connect-timeout" => match parse_time(&entry.value) {
            Ok(time) if !time.is_zero() => route.connect_timeout = Some(time),
            _ => not_a_time(entry, "a time above 0 in milliseconds", diagnostics),
        },
        "response-timeout" => read_timeout(entry, &mut route.response_timeout, diagnostics),
        "read-timeout" => read_timeout(entry, &mut route.read_timeout, diagnostics),
        "body-timeout" => read_timeout(entry, &mut route.body_timeout, diagnostics),
        "write-timeout" => diagnostics
            .warn(entry.span.key(), "`write-timeout` in metadata has no effect: a connection serves many routes")
            .ineffective()
            .help("set `server.write-timeout`"),
        "http2" => match entry.value.trim() {
            "auto" => route.http2 = Some(Http2::Auto),
            "off" | "false" => route.http2 = Some(Http2::Off),
            "prior-knowledge" => route.http2 = Some(Http2::PriorKnowledge),
            other => diagnostics
                .mistake(entry.span, format!("`http2` must be auto, off or prior-knowledge, found `{other}`"))
                .help("`prior-knowledge` uses HTTP/2 without TLS, too"),
        },
        _ if ["connecttimeout", "responsetimeout", "readtimeout", "bodytimeout"]
            .contains(&canonical(name).as_str()) =>
        {
            diagnostics
                .mistake(entry.span.key(), format!("`{name}` in metadata has no effect"))
                .help("metadata is looked up literally: write it in lower case with `-`")
        }
        _ => {}
    }
}

/// Reads a timeout that can be switched off.
fn read_timeout(entry: &Arg, timeout: &mut Option<Timeout>, diagnostics: &mut Diagnostics) {
    match parse_timeout(&entry.value) {
        Ok(time) => *timeout = Some(Timeout(time)),
        Err(_) => not_a_time(entry, "a time in milliseconds, 0 or negative for none", diagnostics),
    }
}

fn not_a_time(entry: &Arg, wanted: &str, diagnostics: &mut Diagnostics) {
    let name = entry.name.as_deref().unwrap_or_default();
    diagnostics
        .mistake(entry.span, format!("`{name}` must be {wanted}, found `{}`", entry.value))
        .ineffective()
        .help("write milliseconds, or a time such as `5s`");
}
