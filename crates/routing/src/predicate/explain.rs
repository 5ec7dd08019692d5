//! What a predicate looks at, in words: why a route does not take a request.

use std::fmt::Display;

use http::{HeaderMap, header};
use jiff::Timestamp;

use super::header::text;
use super::version::Asked;
use super::{CLOUD_FOUNDRY_HEADERS, Kind, Predicate, host, query};
use crate::RequestView;

impl Predicate {
    /// What `request` has where this predicate looks: ``the path is `/a` ``, ``there is no header `X-Id` ``. It holds the
    /// values themselves, so it is for whoever sent the request.
    #[must_use]
    pub fn seen(&self, request: &RequestView<'_>) -> String {
        match &self.0 {
            Kind::Path { .. } => format!("the path is `{}`", request.path),
            Kind::Method(_) => format!("the method is `{}`", request.method),
            Kind::Host { include_port, .. } => match host(request, *include_port) {
                Some(host) => format!("the host is `{host}`"),
                None => "there is no `Host`".to_owned(),
            },
            Kind::Header { name, written, .. } => {
                let values: Vec<_> = request.headers.get_all(name).iter().map(text).collect();
                found("header", written, &values)
            }
            Kind::Query { param, .. } => {
                let values = query::values(request.query.unwrap_or_default(), param);
                let values: Vec<_> = values.map(|value| value.unwrap_or_default()).collect();
                found("parameter", param, &values)
            }
            Kind::Cookie { name, .. } => {
                let cookies: Vec<_> = request.headers.get_all(header::COOKIE).iter().map(text).collect();
                match cookies.is_empty() {
                    true => "there is no cookie".to_owned(),
                    false => format!("of cookie `{name}` there is: {}", list(&cookies)),
                }
            }
            Kind::After(_) | Kind::Before(_) | Kind::Between(..) => {
                let now = (request.now_ms)();
                match Timestamp::from_millisecond(now) {
                    Ok(now) => format!("it is {now}"),
                    Err(_) => format!("it is {now} ms after 1970"),
                }
            }
            Kind::RemoteAddr(_) => format!("the peer is {}", request.peer.to_canonical()),
            Kind::XForwardedRemoteAddr(forwarded) => match forwarded.client(request.headers, request.peer) {
                Some(client) => format!("the client is {client}"),
                None => "what `X-Forwarded-For` says there is no address".to_owned(),
            },
            Kind::Weight(weight) => {
                let (share, total) = weight.share();
                let drawn = weight.drawn(request.chance);
                match share.is_empty() {
                    true => "the route's share is 0".to_owned(),
                    false => format!(
                        "group `{}` drew {drawn} of 0 to {}, the route has {} to {}",
                        weight.group(),
                        total - 1,
                        share.start,
                        share.end - 1
                    ),
                }
            }
            Kind::Version { versions, .. } => match versions.asked(request) {
                Asked::Nothing => "the request asks for no version".to_owned(),
                Asked::Version(version) => format!("the request asks for version {version}"),
                Asked::Unreadable(text) => format!("`{text}` is no version"),
            },
            Kind::CloudFoundryRouteService => missing(request.headers),
            Kind::Any(predicates) | Kind::All(predicates) => {
                let seen: Vec<String> = predicates.iter().map(|predicate| predicate.seen(request)).collect();
                seen.join("; ")
            }
            Kind::Not(predicate) => predicate.seen(request),
        }
    }
}

fn found(what: &str, name: &str, values: &[impl Display]) -> String {
    match values.is_empty() {
        true => format!("there is no {what} `{name}`"),
        false => format!("{what} `{name}` is {}", list(values)),
    }
}

fn list(values: &[impl Display]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
    quoted.join(", ")
}

fn missing(headers: &HeaderMap) -> String {
    let absent: Vec<&str> = CLOUD_FOUNDRY_HEADERS.into_iter().filter(|name| !headers.contains_key(*name)).collect();
    match absent.is_empty() {
        true => "its headers are there".to_owned(),
        false => format!("there is no {}", list(&absent)),
    }
}
