//! Attributes of the span of the server, by OpenTelemetry's semantic conventions for HTTP.

use std::net::IpAddr;
use std::time::Instant;

use http::request::Parts;
use http::{HeaderMap, Method, Version, header};

use crate::http::fields::STANDARD_METHODS;
use tollgate_telemetry::otlp::span::Attribute;
use tollgate_telemetry::trace_context::TRACESTATE;

/// Connection of a request, for the span of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerInfo<'r> {
    /// Time at which the head was read.
    pub started: Instant,
    /// Address of the client, as trusted proxies report it.
    pub client: IpAddr,
    /// True under TLS.
    pub is_tls: bool,
    /// Subject of the client's certificate.
    pub subject: Option<&'r str>,
    /// Id of the route; `None` without a route.
    pub route: Option<&'r str>,
    /// Pattern that matched the path.
    pub pattern: Option<&'r str>,
}

/// Returns the attributes of the request `head`. The query is left out: it may hold secrets.
pub(super) fn attributes(head: &Parts, method: &'static str, info: &ServerInfo<'_>) -> Vec<Attribute> {
    let text = |name: header::HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let mut attributes: Vec<Attribute> = vec![
        ("http.request.method", method.into()),
        ("url.path", head.uri.path().to_owned().into()),
        ("url.scheme", if info.is_tls { "https" } else { "http" }.into()),
        ("network.protocol.version", version(head.version).into()),
        ("client.address", info.client.to_string().into()),
    ];
    if method == "_OTHER" {
        attributes.push(("http.request.method_original", head.method.to_string().into()));
    }
    if let Some(host) = text(header::HOST) {
        let (host, port) = host.rsplit_once(':').map_or((host, None), |(name, port)| match port.parse::<u16>() {
            Ok(port) => (name, Some(port)),
            Err(_) => (host, None),
        });
        attributes.push(("server.address", host.to_owned().into()));
        attributes.extend(port.map(|port| ("server.port", port.into())));
    }
    attributes.extend(text(header::USER_AGENT).map(|agent| ("user_agent.original", agent.to_owned().into())));
    attributes.extend(info.subject.map(|subject| ("tls.client.subject", subject.to_owned().into())));
    attributes.extend(info.route.map(|route| ("tollgate.route", route.to_owned().into())));
    attributes.extend(info.pattern.map(|pattern| ("http.route", pattern.to_owned().into())));
    attributes
}

/// Returns the method, or `_OTHER` for a method that clients may have invented.
pub(super) fn known_method(method: &Method) -> &'static str {
    STANDARD_METHODS.into_iter().find(|name| method.as_str() == *name).unwrap_or("_OTHER")
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

/// Returns the fields `tracestate`, combined in their order.
pub(super) fn joined_state(headers: &HeaderMap) -> Option<Box<str>> {
    let states: Vec<&str> = headers.get_all(TRACESTATE).iter().filter_map(|value| value.to_str().ok()).collect();
    (!states.is_empty()).then(|| states.join(",").into())
}
