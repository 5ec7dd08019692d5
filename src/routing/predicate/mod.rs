//! The conditions of a route: Spring Cloud Gateway's route predicate factories.

mod address;
mod cookie;
mod error;
mod header;
mod query;
mod regexp;
mod time;

#[cfg(test)]
mod tests;

use std::fmt;

use http::{HeaderName, Method};

use self::address::Networks;
pub use self::error::PredicateError;
use self::regexp::Regexp;
use self::time::Moment;
use super::host::HostPattern;
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
    Host(Box<[HostPattern]>),
    Header { name: HeaderName, written: Box<str>, regexp: Option<Regexp> },
    Query { param: Box<str>, regexp: Option<Regexp> },
    Cookie { name: Box<str>, regexp: Regexp },
    After(Moment),
    Before(Moment),
    Between(Moment, Moment),
    RemoteAddr(Networks),
    CloudFoundryRouteService,
}

/// The headers that a request to a Cloud Foundry route service carries.
const CLOUD_FOUNDRY_HEADERS: [&str; 3] = ["x-cf-forwarded-url", "x-cf-proxy-signature", "x-cf-proxy-metadata"];

// === impl Predicate: one constructor a factory ===

impl Predicate {
    /// `Path`: one of the patterns matches the path. The first that does gives the variables.
    ///
    /// With `match_trailing_slash` a `/` at the end of the request's path may be ignored.
    ///
    /// # Errors
    /// No pattern, or a broken one.
    pub fn path(patterns: &[String], match_trailing_slash: bool) -> Result<Self, PredicateError> {
        let patterns = each(patterns, "path pattern", |text| {
            PathPattern::parse(text).map_err(|source| PredicateError::Path { pattern: text.to_owned(), source })
        })?;
        Ok(Self(Kind::Path { patterns, match_trailing_slash }))
    }

    /// `Method`: the method is one of these. Methods are case-sensitive; a standard one may be written in lower case.
    ///
    /// # Errors
    /// No method, or one that is no token (RFC 9110, section 9.1).
    pub fn method(methods: &[String]) -> Result<Self, PredicateError> {
        each(methods, "method", parse_method).map(|methods| Self(Kind::Method(methods)))
    }

    /// `Host`: one of the patterns matches the text of `Host`, port included. The first that does gives the variables.
    ///
    /// # Errors
    /// No pattern, or a broken one.
    pub fn host(patterns: &[String]) -> Result<Self, PredicateError> {
        let patterns = each(patterns, "host pattern", |text| {
            HostPattern::parse(text).map_err(|source| PredicateError::Host { pattern: text.to_owned(), source })
        })?;
        Ok(Self(Kind::Host(patterns)))
    }

    /// `Header`: one value of the field matches the whole of `regexp`; without one, some value is not empty.
    ///
    /// Values are the elements of a comma-separated list, as RFC 9110, section 5.6.1, splits it.
    ///
    /// # Errors
    /// A name that is no field name, or a broken expression.
    pub fn header(name: &str, regexp: Option<&str>) -> Result<Self, PredicateError> {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| PredicateError::HeaderName { name: name.to_owned() })?;
        Ok(Self(Kind::Header { name: parsed, written: name.into(), regexp: Regexp::optional(regexp)? }))
    }

    /// `Query`: one value of the parameter matches the whole of `regexp`; without one, the parameter is there.
    ///
    /// Names and values are decoded, `+` to a space. A parameter without `=` has no value, so no expression matches it.
    ///
    /// # Errors
    /// An empty name, or a broken expression.
    pub fn query(param: &str, regexp: Option<&str>) -> Result<Self, PredicateError> {
        if param.is_empty() {
            return Err(PredicateError::NoValues { what: "parameter" });
        }
        Ok(Self(Kind::Query { param: param.into(), regexp: Regexp::optional(regexp)? }))
    }

    /// `Cookie`: a cookie of this name, case-sensitive, has a value that matches the whole of `regexp`.
    ///
    /// # Errors
    /// An empty name, or a broken expression.
    pub fn cookie(name: &str, regexp: &str) -> Result<Self, PredicateError> {
        if name.is_empty() {
            return Err(PredicateError::NoValues { what: "cookie" });
        }
        Ok(Self(Kind::Cookie { name: name.into(), regexp: Regexp::parse(regexp)? }))
    }

    /// `After`: the time is past `datetime`, such as `2027-01-20T17:42:47.789-07:00[America/Denver]` or milliseconds
    /// since 1970. The offset is required; the zone may be left out and says nothing more.
    ///
    /// # Errors
    /// A text that is neither.
    pub fn after(datetime: &str) -> Result<Self, PredicateError> {
        Moment::parse(datetime).map(|moment| Self(Kind::After(moment)))
    }

    /// `Before`: the time is before `datetime`, written as for [`after`](Self::after).
    ///
    /// # Errors
    /// A text that is no time.
    pub fn before(datetime: &str) -> Result<Self, PredicateError> {
        Moment::parse(datetime).map(|moment| Self(Kind::Before(moment)))
    }

    /// `Between`: the time is past the first and before the second, each written as for [`after`](Self::after).
    ///
    /// # Errors
    /// A text that is no time, or a first time that is not before the second.
    pub fn between(datetime1: &str, datetime2: &str) -> Result<Self, PredicateError> {
        let (from, to) = (Moment::parse(datetime1)?, Moment::parse(datetime2)?);
        if from.epoch_ms() >= to.epoch_ms() {
            return Err(PredicateError::Order { from: datetime1.to_owned(), to: datetime2.to_owned() });
        }
        Ok(Self(Kind::Between(from, to)))
    }

    /// `RemoteAddr`: the TCP peer is in one of these networks (`10.0.0.0/8`, `fd00::/8`, host bits allowed).
    ///
    /// A lone address is itself alone. Spring reads a lone IPv6 address as its whole `/32`: a mistake there that is not
    /// kept here. An IPv4 peer seen as IPv4-mapped IPv6 (`::ffff:10.0.0.1`) is its IPv4 address.
    ///
    /// # Errors
    /// No network, or a text that is none.
    pub fn remote_addr(sources: &[String]) -> Result<Self, PredicateError> {
        Networks::parse(sources).map(|networks| Self(Kind::RemoteAddr(networks)))
    }

    /// `CloudFoundryRouteService`: the three headers of a Cloud Foundry route service are all there.
    #[must_use]
    pub fn cloud_foundry_route_service() -> Self {
        Self(Kind::CloudFoundryRouteService)
    }
}

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
            Kind::Host(patterns) => {
                request.host().is_some_and(|host| patterns.iter().any(|pattern| pattern.matches(host)))
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
            Kind::CloudFoundryRouteService => {
                CLOUD_FOUNDRY_HEADERS.iter().all(|name| request.headers.contains_key(*name))
            }
        }
    }

    /// Adds the variables that this predicate takes from a request it matches: those of `Path` and `Host`.
    pub fn variables(&self, request: &RequestView<'_>, out: &mut Variables) {
        match &self.0 {
            Kind::Path { patterns, match_trailing_slash } => {
                let first = patterns.iter().find(|pattern| pattern.matches(request.path, *match_trailing_slash));
                if let Some(pattern) = first {
                    pattern.captures(request.path, *match_trailing_slash, out);
                }
            }
            Kind::Host(patterns) => {
                let Some(host) = request.host() else { return };
                if let Some(pattern) = patterns.iter().find(|pattern| pattern.matches(host)) {
                    pattern.captures(host, out);
                }
            }
            _ => {}
        }
    }

    /// The names of the variables that [`variables`](Self::variables) may add: each pattern has its own.
    #[must_use]
    pub fn variable_names(&self) -> Vec<&str> {
        match &self.0 {
            Kind::Path { patterns, .. } => patterns.iter().flat_map(PathPattern::variable_names).collect(),
            Kind::Host(patterns) => patterns.iter().flat_map(HostPattern::variable_names).collect(),
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
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Path { patterns, match_trailing_slash } => {
                write!(f, "Paths: {}, match trailing slash: {match_trailing_slash}", List(patterns))
            }
            Kind::Method(methods) => write!(f, "Methods: {}", List(methods)),
            Kind::Host(patterns) => write!(f, "Hosts: {}", List(patterns)),
            Kind::Header { written, regexp, .. } => write!(f, "Header: {written} regexp={}", OrNull(regexp)),
            Kind::Query { param, regexp } => write!(f, "Query: param={param} regexp={}", OrNull(regexp)),
            Kind::Cookie { name, regexp } => write!(f, "Cookie: name={name} regexp={regexp}"),
            Kind::After(from) => write!(f, "After: {from}"),
            Kind::Before(to) => write!(f, "Before: {to}"),
            Kind::Between(from, to) => write!(f, "Between: {from} and {to}"),
            Kind::RemoteAddr(networks) => write!(f, "RemoteAddrs: {}", List(networks.sources())),
            Kind::CloudFoundryRouteService => f.write_str("CloudFoundryRouteService"),
        }
    }
}

/// Predicates that must all hold, shown as Spring Cloud Gateway shows them: `((A && B) && C)`.
#[derive(Clone, Copy, Debug)]
pub struct AllOf<'a>(pub &'a [Predicate]);

impl fmt::Display for AllOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 1..self.0.len() {
            f.write_str("(")?;
        }
        for (index, predicate) in self.0.iter().enumerate() {
            match index {
                0 => write!(f, "{predicate}")?,
                _ => write!(f, " && {predicate})")?,
            }
        }
        Ok(())
    }
}

struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{item}")?;
        }
        f.write_str("]")
    }
}

struct OrNull<'a>(&'a Option<Regexp>);

impl fmt::Display for OrNull<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(regexp) => regexp.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// Reads each text; there must be one.
fn each<T>(
    texts: &[String],
    what: &'static str,
    read: impl Fn(&str) -> Result<T, PredicateError>,
) -> Result<Box<[T]>, PredicateError> {
    if texts.is_empty() {
        return Err(PredicateError::NoValues { what });
    }
    texts.iter().map(|text| read(text)).collect()
}

fn parse_method(text: &str) -> Result<Method, PredicateError> {
    const STANDARD: [Method; 9] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
        Method::CONNECT,
    ];
    match STANDARD.iter().find(|method| method.as_str().eq_ignore_ascii_case(text)) {
        Some(method) => Ok(method.clone()),
        None => Method::from_bytes(text.as_bytes()).map_err(|_| PredicateError::Method { method: text.to_owned() }),
    }
}
