//! `upstreams.NAME.endpoints`: a list of servers.

use std::collections::HashSet;
use std::fmt;

use http::Uri;
use serde::Deserialize;

use crate::de::{Or, Ranged, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
use crate::yaml::Span;

/// Endpoint of an upstream.
#[section]
pub(crate) struct RawEndpoint {
    /// `http://host:port` or `https://host:port`.
    uri: Option<Spanned<String>>,
    /// Share of requests, in proportion to the other weights; 0: none.
    weight: Or<Weight, 1>,
    /// Priority: endpoints of a higher number are used only if none of a lower number is healthy.
    priority: Or<u16, 0>,
}

/// An endpoint as its URI, or as a map.
#[derive(Debug, Deserialize)]
#[serde(rename = "$tollgate::Shape", rename_all = "lowercase")]
pub(crate) enum EndpointEntry {
    Scalar(Spanned<String>),
    Map(RawEndpoint),
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
#[word(Default, Hash, PartialOrd, Ord)]
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
    list: &Spanned<Vec<Spanned<EndpointEntry>>>,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<ListedEndpoint>, Reported> {
    if list.is_empty() {
        return Err(diagnostics
            .error(list.span, "`endpoints` is empty")
            .reported_with("write `endpoints: [\"http://host:port\"]`"));
    }
    let mut endpoints: Vec<ListedEndpoint> = Vec::with_capacity(list.len());
    let mut addresses = HashSet::new();
    let mut result = Ok(());
    for entry in &list.value {
        match one_endpoint(entry, diagnostics) {
            Err(reported) => result = Err(reported),
            Ok((endpoint, at)) if !addresses.insert(endpoint.address.clone()) => {
                diagnostics
                    .mistake(at, format!("duplicate endpoint `{}`", endpoint.address))
                    .help("remove it; `weight: 2` doubles its share");
            }
            Ok((endpoint, _)) => endpoints.push(endpoint),
        }
    }
    result?;
    if endpoints.iter().all(|endpoint| endpoint.weight == 0) {
        let error = diagnostics.error(list.span, "every endpoint has weight 0");
        return Err(error.reported_with("give one of them a weight above 0"));
    }
    Ok(endpoints)
}

/// Reads an endpoint, and returns it with the place of its URI.
fn one_endpoint(
    entry: &Spanned<EndpointEntry>,
    diagnostics: &mut Diagnostics,
) -> Result<(ListedEndpoint, Span), Reported> {
    let (uri, weight, priority) = match &entry.value {
        EndpointEntry::Scalar(uri) => (uri, 1, 0),
        EndpointEntry::Map(RawEndpoint { uri: Some(uri), weight, priority }) => (uri, weight.get(), priority.get()),
        EndpointEntry::Map(_) => {
            return Err(diagnostics
                .error(entry.span, "endpoint without `uri`")
                .reported_with("add `uri: http://host:port`"));
        }
    };
    Ok((ListedEndpoint { address: endpoint(uri, diagnostics)?, weight, priority }, uri.span))
}

/// Reads the endpoint at `uri`. Reports errors.
pub(super) fn endpoint(uri: &Spanned<String>, diagnostics: &mut Diagnostics) -> Result<EndpointAddress, Reported> {
    let (text, at) = (uri.value.trim(), uri.span);
    let parsed = text.parse::<Uri>().ok();
    let parts = parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?, uri)));
    let Some((scheme, authority, whole)) = parts else {
        return Err(diagnostics
            .error(at, format!("`{text}` is not an endpoint"))
            .reported_with("write it like `http://10.0.0.1:9000`"));
    };
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => Scheme::Http,
        "https" | "wss" => Scheme::Https,
        other => {
            return Err(diagnostics
                .error(at, format!("unsupported scheme `{other}`"))
                .reported_with("use `http://host:port` or `https://host:port`"));
        }
    };
    if authority.as_str().contains('@') {
        return Err(diagnostics
            .error(at, "a user and password in an endpoint are not sent")
            .reported_with("remove them, or set the header with `SetRequestHeader=Authorization,…`"));
    }
    let port = match authority.as_str().rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse::<u16>().ok().filter(|port| *port > 0),
        _ => Some(scheme.default_port()),
    };
    let host = authority.host().trim_matches(['[', ']']);
    let (Some(port), false) = (port, host.is_empty()) else {
        return Err(diagnostics
            .error(at, format!("`{text}` has no usable host and port"))
            .reported_with("write it like `http://10.0.0.1:9000`"));
    };
    if whole.path_and_query().is_some_and(|path| path.as_str() != "/") {
        diagnostics
            .warn(at, "path and query of an endpoint are ignored")
            .help("`PrefixPath=/…` or `SetPath=/…` in the route changes the path");
    }
    diagnostics.servers.add(host, port, at);
    Ok(EndpointAddress { scheme, host: host.to_owned(), port, name: host.to_owned() })
}

impl Scheme {
    /// Returns the scheme as in URIs: `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the default port.
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
