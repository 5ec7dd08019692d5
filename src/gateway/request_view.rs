//! Request as predicates see it.

use std::net::IpAddr;

use http::{HeaderMap, Method, Uri};
use tollgate_routing::RequestView;

/// Returns the view of a request for route matching. `peer` is the address that `RemoteAddr` compares, `random` the
/// number that `Weight` uses.
#[must_use]
pub fn request_view<'r>(
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    peer: IpAddr,
    random: u64,
) -> RequestView<'r> {
    let (path, query) = (uri.path(), uri.query());
    RequestView { method, path, query, headers, peer, now_ms, chance: random }
}

/// Returns the wall clock in milliseconds since the Unix epoch, for predicates about time.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
