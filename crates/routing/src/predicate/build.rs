//! From what is written to predicates: one constructor a factory.

use std::num::NonZeroUsize;
use std::sync::Arc;

use http::{HeaderName, Method};

use super::address::Networks;
use super::error::PredicateError;
use super::forwarded::Forwarded;
use super::regexp::Regexp;
use super::time::Moment;
use super::version::{ApiVersions, Wanted};
use super::weight::Weight;
use super::{Kind, Predicate};
use crate::{HostPattern, PathPattern};

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
        Self::hosts(patterns, true)
    }

    /// `Host` where `predicate.host.include-port` is false: the port is left out before the patterns are asked.
    ///
    /// # Errors
    /// No pattern, or a broken one.
    pub fn host_without_port(patterns: &[String]) -> Result<Self, PredicateError> {
        Self::hosts(patterns, false)
    }

    fn hosts(patterns: &[String], include_port: bool) -> Result<Self, PredicateError> {
        let patterns = each(patterns, "host pattern", |text| {
            HostPattern::parse(text).map_err(|source| PredicateError::Host { pattern: text.to_owned(), source })
        })?;
        Ok(Self(Kind::Host { patterns, include_port }))
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

    /// `XForwardedRemoteAddr`: the client's address by `X-Forwarded-For` is in one of these networks (see
    /// [`remote_addr`](Self::remote_addr)).
    ///
    /// It is the entry `max_trusted_index` from the right, 1 being the last, and the first where there are fewer. Without
    /// the field, with an empty one and with several lines of it, it is the TCP peer. The field is what the client and
    /// the proxies sent, whoever they are: the index says how many of them are believed.
    ///
    /// # Errors
    /// No network, or a text that is none.
    pub fn x_forwarded_remote_addr(
        sources: &[String],
        max_trusted_index: NonZeroUsize,
    ) -> Result<Self, PredicateError> {
        Ok(Self(Kind::XForwardedRemoteAddr(Forwarded { networks: Networks::parse(sources)?, max_trusted_index })))
    }

    /// `Weight`: of the routes of `group` one is drawn for each request, as often as its share of their weights says, and
    /// this holds for that one. The shares are known once a [`RouteTable`](crate::RouteTable) has the routes;
    /// a predicate alone is the only one of its group. A weight of 0 never holds.
    #[must_use]
    pub fn weight(group: &str, weight: u32) -> Self {
        Self(Kind::Weight(Weight::new(group, weight)))
    }

    /// `Version`: the version that the request asks for, found by `versions`, is this one (`1.3`, which is `1.3.0`) or,
    /// with a `+` at the end, this one or a later one. A request without a version matches, unless `versions` says
    /// otherwise; one whose version cannot be read, or is not supported, does not.
    ///
    /// # Errors
    /// A text that is no version.
    pub fn version(wanted: &str, versions: Arc<ApiVersions>) -> Result<Self, PredicateError> {
        let wanted = Wanted::parse(wanted).ok_or_else(|| PredicateError::Version { text: wanted.to_owned() })?;
        Ok(Self(Kind::Version { wanted, versions }))
    }

    /// One of these holds. The first that does gives the variables.
    #[must_use]
    pub fn any(predicates: Vec<Self>) -> Self {
        Self(Kind::Any(predicates.into()))
    }

    /// All of these hold.
    #[must_use]
    pub fn all(predicates: Vec<Self>) -> Self {
        Self(Kind::All(predicates.into()))
    }

    /// This does not hold. Gives no variables.
    #[must_use]
    pub fn negated(predicate: Self) -> Self {
        Self(Kind::Not(Box::new(predicate)))
    }

    /// `CloudFoundryRouteService`: the three headers of a Cloud Foundry route service are all there.
    #[must_use]
    pub fn cloud_foundry_route_service() -> Self {
        Self(Kind::CloudFoundryRouteService)
    }
}

/// Reads each text; there must be one.
pub(super) fn each<T>(
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
