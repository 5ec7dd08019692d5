//! `upstreams.NAME.endpoints`: a list of servers.

use std::fmt;

use http::Uri;
use serde::Deserialize;

use crate::de;
use crate::de::defaults::Or;
use crate::de::nodes::Nodes;
use crate::de::ranged::Ranged;
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::Diagnostics;
use crate::yaml::{Node, NodeKind, Span};

/// Endpoint of an upstream.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEndpoint {
    /// `http://host:port` or `https://host:port`.
    uri: Option<Spanned<String>>,
    /// Share of requests, in proportion to the other weights; 0: none.
    weight: Or<Weight, 1>,
    /// Priority: endpoints of a higher number are used only if none of a lower number is healthy.
    priority: Or<u16, 0>,
}

/// An endpoint as a map, or its URI.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum RawEndpointEntry {
    /// As a map.
    Full(RawEndpoint),
    /// Its URI.
    Uri(String),
}

/// Endpoint in the list of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEndpoint {
    /// Its address.
    pub address: EndpointAddress,
    /// Relative share of requests; 0: none.
    pub weight: u32,
    /// Priority: used only if no endpoint of a lower number is healthy.
    pub priority: u16,
}

/// Address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointAddress {
    /// Its scheme.
    pub scheme: Scheme,
    /// Host to connect to, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Name for the field `Host`, without port and brackets: the resolved DNS name, otherwise `host`.
    pub name: String,
}

/// Scheme of an HTTP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// `http` and `ws`: without TLS.
    #[default]
    Http,
    /// `https` and `wss`: with TLS.
    Https,
}

/// Weight, up to the largest one of SRV records (RFC 2782).
type Weight = Ranged<u32, 0, 65_535>;

/// Checks `endpoints`. Reports errors.
pub(super) fn check(
    list: &Spanned<Vec<NodeRef>>,
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<ListedEndpoint>> {
    let (list, at) = (&list.value, list.span);
    if list.is_empty() {
        diagnostics.error(at, "`endpoints` is empty").help("write `endpoints: [\"http://host:port\"]`");
        return None;
    }
    let mut endpoints: Vec<ListedEndpoint> = Vec::with_capacity(list.len());
    let mut is_complete = true;
    for node in list.iter().filter_map(|node| nodes.get(*node)) {
        let Some((read, at)) = one_endpoint(node, diagnostics) else {
            is_complete = false;
            continue;
        };
        if endpoints.iter().any(|known| known.address == read.address) {
            diagnostics
                .mistake(at, format!("duplicate endpoint `{}`", read.address))
                .help("remove it; `weight: 2` doubles its share");
            continue;
        }
        endpoints.push(read);
    }
    if is_complete && endpoints.iter().all(|endpoint| endpoint.weight == 0) {
        diagnostics.error(at, "every endpoint has weight 0").help("give one of them a weight above 0");
        return None;
    }
    is_complete.then_some(endpoints)
}

/// Reads an endpoint, and returns it with the place of its URI.
fn one_endpoint(node: &Node, diagnostics: &mut Diagnostics) -> Option<(ListedEndpoint, Span)> {
    if let Some(text) = node.scalar() {
        let uri = Spanned { value: text.to_owned(), span: node.span };
        return Some((ListedEndpoint { address: endpoint(&uri, diagnostics)?, weight: 1, priority: 0 }, node.span));
    }
    if !matches!(node.kind, NodeKind::Map(_)) {
        diagnostics
            .error(node.span, format!("expected an endpoint, found {}", node.describe()))
            .help("write `http://host:port`, or `{uri: \"http://host:port\", weight: 2}`");
        return None;
    }
    let (raw, unknown) = de::read::<RawEndpoint>(node, diagnostics);
    unknown.iter().for_each(|unknown| diagnostics.unknown_key(unknown));
    let Some(uri) = &raw.uri else {
        diagnostics.error(node.span, "endpoint without `uri`").help("add `uri: http://host:port`");
        return None;
    };
    Some((
        ListedEndpoint { address: endpoint(uri, diagnostics)?, weight: raw.weight.get(), priority: raw.priority.get() },
        uri.span,
    ))
}

/// Reads the endpoint at `uri`. Reports errors.
pub(super) fn endpoint(uri: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<EndpointAddress> {
    let (text, at) = (uri.value.trim(), uri.span);
    let parsed = text.parse::<Uri>().ok();
    let parts = parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?, uri)));
    let Some((scheme, authority, whole)) = parts else {
        diagnostics.error(at, format!("`{text}` is not an endpoint")).help("write it like `http://10.0.0.1:9000`");
        return None;
    };
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => Scheme::Http,
        "https" | "wss" => Scheme::Https,
        other => {
            diagnostics
                .error(at, format!("unsupported scheme `{other}`"))
                .help("use `http://host:port` or `https://host:port`");
            return None;
        }
    };
    if authority.as_str().contains('@') {
        diagnostics
            .error(at, "a user and password in an endpoint are not sent")
            .help("remove them, or set the header with `SetRequestHeader=Authorization,…`");
        return None;
    }
    let port = match authority.as_str().rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse::<u16>().ok().filter(|port| *port > 0),
        _ => Some(scheme.default_port()),
    };
    let host = authority.host().trim_matches(['[', ']']);
    let (Some(port), false) = (port, host.is_empty()) else {
        diagnostics
            .error(at, format!("`{text}` has no usable host and port"))
            .help("write it like `http://10.0.0.1:9000`");
        return None;
    };
    if whole.path_and_query().is_some_and(|path| path.as_str() != "/") {
        diagnostics
            .warn(at, "path and query of an endpoint are ignored")
            .help("`PrefixPath=/…` or `SetPath=/…` in the route changes the path");
    }
    Some(EndpointAddress { scheme, host: host.to_owned(), port, name: host.to_owned() })
}

impl Scheme {
    /// Returns the scheme as in URIs: `http` or `https`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the default port.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port, .. } = self;
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{host}{close}:{port}", scheme.as_str())
    }
}
