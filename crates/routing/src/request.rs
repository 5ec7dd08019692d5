//! What predicates see of a request.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderMap, Method};

/// The request as routing sees it: the client's, before any filter has changed it.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The method, case-sensitive.
    pub method: &'a Method,
    /// The path in normal form (see [`normalize`](super::normalize)), without the query.
    pub path: &'a str,
    /// What follows the `?`, still encoded; none when there is no `?`.
    pub query: Option<&'a str>,
    /// The header fields.
    pub headers: &'a HeaderMap,
    /// The address of the TCP peer.
    pub peer: IpAddr,
    /// Tells the milliseconds since 1970; asked by predicates about time alone.
    pub now_ms: fn() -> i64,
    /// A random number, the request's own: what `Weight` draws routes by.
    pub chance: u64,
}

impl<'a> RequestView<'a> {
    /// The text of the `Host` field, port included. Screening has put an `:authority` there.
    #[must_use]
    pub fn host(&self) -> Option<&'a str> {
        self.headers.get(HOST)?.to_str().ok()
    }
}

/// The values of a route's variables, percent-encoded as in the path, in the order of the patterns; each name occurs once.
pub type Variables = Vec<(Arc<str>, String)>;

/// Gives `name` a value; a later one replaces an earlier one, as Spring Cloud Gateway merges predicates' variables.
pub(super) fn set_variable(variables: &mut Variables, name: &Arc<str>, value: String) {
    match variables.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = value,
        None => variables.push((Arc::clone(name), value)),
    }
}
