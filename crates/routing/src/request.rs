//! The parts of a request that predicates read.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderMap, HeaderName, Method, Uri};
use jiff::Timestamp;

/// Part of a request that a predicate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart<'p> {
    /// The path.
    Path,
    /// The query.
    Query,
    /// The method.
    Method,
    /// The `Host` field.
    Host,
    /// The address of the peer.
    RemoteAddr,
    /// Another header field.
    Header(&'p HeaderName),
    /// The time at which it arrived.
    Time,
    /// A random number of its own.
    Random,
}

/// The parts of a request that predicates read, before any filter has changed them. Path and `Host` are normalized.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The method, case-sensitive.
    pub(crate) method: &'a Method,
    /// The normalized path (see [`normalize`](crate::normalize)), without the query.
    pub(crate) path: &'a str,
    /// The text after the `?`, still encoded; `None` without a `?`.
    pub(crate) query: Option<&'a str>,
    /// The header fields.
    pub(crate) headers: &'a HeaderMap,
    /// The fields to read `X-Forwarded-For` from.
    pub(crate) forwarded_for: &'a HeaderMap,
    /// The TCP peer, or the client address that trusted proxies report.
    pub(crate) remote_addr: IpAddr,
    /// Returns milliseconds since 1970. Only predicates about time call it.
    pub(crate) now_ms: fn() -> i64,
    /// The request's random number; `Weight` selects routes by it.
    pub(crate) random: u64,
}

impl<'a> RequestView<'a> {
    /// Creates the view of a request. The path must be [normalized](crate::normalize), and the `Host` field must hold the
    /// authority in [normal form](crate::normalize_host).
    ///
    /// `remote_addr` is the TCP peer, or the client address that trusted proxies report. `random` is a number that is
    /// drawn once for the request: `Weight` predicates select a route by it.
    #[must_use]
    pub fn new(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap, remote_addr: IpAddr, random: u64) -> Self {
        let now_ms = || Timestamp::now().as_millisecond();
        Self {
            method,
            path: uri.path(),
            query: uri.query(),
            headers,
            forwarded_for: headers,
            remote_addr,
            now_ms,
            random,
        }
    }

    /// Reads `X-Forwarded-For` from `headers`, for a gateway that has changed its copy since the request was received.
    #[must_use]
    pub fn with_forwarded_for(self, headers: &'a HeaderMap) -> Self {
        Self { forwarded_for: headers, ..self }
    }

    /// Returns the text of the `Host` field, port included. HTTP/2's `:authority` must have been copied there.
    #[must_use]
    pub fn host(&self) -> Option<&'a str> {
        self.headers.get(HOST)?.to_str().ok()
    }
}

/// The values of a route's variables, percent-encoded as in the path, in the order of the patterns. Names are unique.
pub type Variables = Vec<(Arc<str>, String)>;

/// Sets `name` to `value`. A later value replaces an earlier one, as in Spring Cloud Gateway.
pub(crate) fn set_variable(variables: &mut Variables, name: &Arc<str>, value: String) {
    match variables.iter_mut().find(|(variable, _)| variable == name) {
        Some((_, earlier)) => *earlier = value,
        None => variables.push((Arc::clone(name), value)),
    }
}
