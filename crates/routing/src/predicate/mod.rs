//! The conditions of a route: Spring Cloud Gateway's route predicate factories.

mod address;
mod build;
mod cookie;
mod error;
mod explain;
mod forwarded;
mod header;
mod query;
mod regexp;
mod show;
mod time;
mod version;
mod weight;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::{HeaderName, Method};

use self::address::Networks;
pub use self::error::PredicateError;
use self::forwarded::Forwarded;
use self::regexp::Regexp;
pub use self::show::AllOf;
use self::time::Moment;
use self::version::Wanted;
pub use self::version::{ApiVersions, Version, VersionSource};
use self::weight::Weight;
pub(super) use self::weight::share_out;
use super::host::{HostPattern, without_port};
use super::path::PathPattern;
use super::request::{RequestView, Variables};

/// One condition on a request. It shows as Spring Cloud Gateway's routes endpoint shows it:
/// `Paths: [/orders/**], match trailing slash: false`.
#[derive(Clone, Debug)]
pub struct Predicate(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Path { patterns: Box<[PathPattern]>, match_trailing_slash: bool },
    Method(Box<[Method]>),
    Host { patterns: Box<[HostPattern]>, include_port: bool },
    Header { name: HeaderName, written: Box<str>, regexp: Option<Regexp> },
    Query { param: Box<str>, regexp: Option<Regexp> },
    Cookie { name: Box<str>, regexp: Regexp },
    After(Moment),
    Before(Moment),
    Between(Moment, Moment),
    RemoteAddr(Networks),
    XForwardedRemoteAddr(Forwarded),
    Weight(Weight),
    Version { wanted: Wanted, versions: Arc<ApiVersions> },
    CloudFoundryRouteService,
    Any(Box<[Predicate]>),
    All(Box<[Predicate]>),
    Not(Box<Predicate>),
}

/// The headers that a request to a Cloud Foundry route service carries.
const CLOUD_FOUNDRY_HEADERS: [&str; 3] = ["x-cf-forwarded-url", "x-cf-proxy-signature", "x-cf-proxy-metadata"];

// === impl Predicate: what it answers ===

impl Predicate {
    /// Whether the condition holds.
    #[must_use]
    pub fn matches(&self, request: &RequestView<'_>) -> bool {
        match &self.0 {
            Kind::Path { patterns, match_trailing_slash } => {
                patterns.iter().any(|pattern| pattern.matches(request.path, *match_trailing_slash))
            }
            Kind::Method(methods) => methods.contains(request.method),
            Kind::Host { patterns, include_port } => {
                host(request, *include_port).is_some_and(|host| patterns.iter().any(|pattern| pattern.matches(host)))
            }
            Kind::Header { name, regexp, .. } => header::matches(request.headers, name, regexp.as_ref()),
            Kind::Query { param, regexp } => query::matches(request.query.unwrap_or_default(), param, regexp.as_ref()),
            Kind::Cookie { name, regexp } => cookie::matches(request.headers, name, regexp),
            Kind::After(from) => (request.now_ms)() > from.epoch_ms(),
            Kind::Before(to) => (request.now_ms)() < to.epoch_ms(),
            Kind::Between(from, to) => {
                let now = (request.now_ms)();
                from.epoch_ms() < now && now < to.epoch_ms()
            }
            Kind::RemoteAddr(networks) => networks.contain(request.peer),
            Kind::XForwardedRemoteAddr(forwarded) => forwarded.matches(request.headers, request.peer),
            Kind::Weight(weight) => weight.is_drawn(request.chance),
            Kind::Version { wanted, versions } => wanted.matches(versions, request),
            Kind::Any(predicates) => predicates.iter().any(|predicate| predicate.matches(request)),
            Kind::All(predicates) => predicates.iter().all(|predicate| predicate.matches(request)),
            Kind::Not(predicate) => !predicate.matches(request),
            Kind::CloudFoundryRouteService => {
                CLOUD_FOUNDRY_HEADERS.iter().all(|name| request.headers.contains_key(*name))
            }
        }
    }

    /// Adds the variables that this predicate takes from a request it matches: those of `Path` and `Host`, of the first
    /// of several alternatives that matches.
    pub fn variables(&self, request: &RequestView<'_>, out: &mut Variables) {
        match &self.0 {
            Kind::Path { patterns, match_trailing_slash } => {
                let first = patterns.iter().find(|pattern| pattern.matches(request.path, *match_trailing_slash));
                if let Some(pattern) = first {
                    pattern.captures(request.path, *match_trailing_slash, out);
                }
            }
            Kind::Host { patterns, include_port } => {
                let Some(host) = host(request, *include_port) else { return };
                if let Some(pattern) = patterns.iter().find(|pattern| pattern.matches(host)) {
                    pattern.captures(host, out);
                }
            }
            Kind::Any(predicates) => {
                if let Some(first) = predicates.iter().find(|predicate| predicate.matches(request)) {
                    first.variables(request, out);
                }
            }
            Kind::All(predicates) => predicates.iter().for_each(|predicate| predicate.variables(request, out)),
            _ => {}
        }
    }

    /// The names of the variables that [`variables`](Self::variables) may add: each pattern has its own.
    #[must_use]
    pub fn variable_names(&self) -> Vec<&str> {
        match &self.0 {
            Kind::Path { patterns, .. } => patterns.iter().flat_map(PathPattern::variable_names).collect(),
            Kind::Host { patterns, .. } => patterns.iter().flat_map(HostPattern::variable_names).collect(),
            Kind::Any(predicates) | Kind::All(predicates) => {
                predicates.iter().flat_map(Predicate::variable_names).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The patterns of a `Path` predicate.
    #[must_use]
    pub fn path_patterns(&self) -> Option<&[PathPattern]> {
        match &self.0 {
            Kind::Path { patterns, .. } => Some(patterns),
            _ => None,
        }
    }

    /// The group and weight of a `Weight` predicate.
    #[must_use]
    pub fn weighted(&self) -> Option<(&str, u32)> {
        match &self.0 {
            Kind::Weight(weight) => Some((weight.group(), weight.weight())),
            _ => None,
        }
    }

    /// The path patterns of this predicate and of those within it, but for what is negated.
    #[must_use]
    pub fn paths_within(&self) -> Vec<&PathPattern> {
        match &self.0 {
            Kind::Any(predicates) | Kind::All(predicates) => predicates.iter().flat_map(Self::paths_within).collect(),
            _ => self.path_patterns().unwrap_or_default().iter().collect(),
        }
    }

    /// The patterns of a `Host` predicate.
    pub(super) fn host_patterns(&self) -> Option<&[HostPattern]> {
        match &self.0 {
            Kind::Host { patterns, .. } => Some(patterns),
            _ => None,
        }
    }

    /// The predicates of which one must hold, and whether it is all of them that must.
    pub(super) fn members(&self) -> Option<(&[Predicate], bool)> {
        match &self.0 {
            Kind::Any(predicates) => Some((predicates, false)),
            Kind::All(predicates) => Some((predicates, true)),
            _ => None,
        }
    }
}

/// The request's host as a `Host` predicate sees it.
fn host<'r>(request: &RequestView<'r>, include_port: bool) -> Option<&'r str> {
    request.host().map(|host| if include_port { host } else { without_port(host) })
}
