//! Keys of a route and of its `metadata`, and the shapes of predicates for the schema. `route` reads the values of `NodeRef`s
//! from the tree.

#[cfg(test)]
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::de::{
    Flag, LEAST_BARE_MILLIS, NodeRef, Or, Spanned, Timeout, bare_millis, canonical, parse_time, parse_timeout,
    warn_of_bare_millis,
};
use crate::diagnostics::Diagnostics;
#[cfg(test)]
use crate::filters::schema::FilterEntrySchema;
#[cfg(test)]
use crate::predicates::schema::PredicateEntrySchema;
use crate::routes::model::Route;
use crate::sections::cors::RawCors;
use crate::sections::http_client::Http2;
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::spec::{Arg, flatten};
use crate::yaml::{Node, NodeKind};

/// Route: predicates, filters and a target.
#[section]
pub(crate) struct RawRoute {
    /// Unique id, without `#`; limits are counted by it. Default `route-N`, by position.
    pub(crate) id: Option<Spanned<String>>,
    /// Target: `http://host[:port]`, `https://host[:port]`, `lb://NAME` for one of `upstreams`, or `echo:` for the built-in upstream. `ws` and `wss` mean the same as `http` and `https`. Required.
    pub(crate) uri: Option<Spanned<String>>,
    /// Predicates, which must all match. Required.
    #[cfg_attr(test, schemars(with = "Vec<RawCondition>"))]
    pub(crate) predicates: Vec<NodeRef>,
    /// Filters in the order in which a request passes them. Default: none.
    #[cfg_attr(test, schemars(with = "Vec<FilterEntrySchema>"))]
    pub(crate) filters: Vec<NodeRef>,
    /// CORS policy for the paths of this route. Preflights are answered even if no route matches.
    pub(crate) cors: Option<Spanned<RawCors>>,
    /// `connect-timeout`, `response-timeout`, `read-timeout`, `tls` and `http2` of this route, which replace those of `httpclient`; `body-timeout`, which replaces that of `server` (timeouts in milliseconds; 0 or negative: none); Spring's `cors`, and your own notes. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub(crate) metadata: Option<NodeRef>,
    /// TLS to this route's `https` target; `metadata.tls` means the same. Default: `httpclient.tls`.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    pub(crate) tls: Option<NodeRef>,
    /// HTTP/2 with this route's target; `metadata.http2` means the same. Default: `httpclient.http2`.
    pub(crate) http2: Option<Http2>,
    /// Order in which routes are tried, lower first; routes with equal numbers in file order.
    pub(crate) order: Or<i32, 0>,
    /// Enables the route.
    pub(crate) enabled: Flag<true>,
}

/// A route as a map, or on one line: `id=uri,Predicate=arg`.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum RawRouteEntry {
    /// As a map.
    Full(Box<RawRoute>),
    /// On one line.
    Line(String),
}

/// A predicate, or several joined by `any`, `all` and `not`.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum RawCondition {
    /// A predicate.
    One(PredicateEntrySchema),
    /// At least one condition must match.
    Any {
        /// At least one of these conditions must match.
        any: Vec<RawCondition>,
    },
    /// All conditions must match.
    All {
        /// Predicates, which must all match.
        all: Vec<RawCondition>,
    },
    /// The condition must not match.
    Not {
        /// This condition must not match.
        not: Box<RawCondition>,
    },
}

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
