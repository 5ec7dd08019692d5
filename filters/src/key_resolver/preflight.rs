//! Preflights of browsers, which carry no key.

use std::net::IpAddr;

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::{Method, Request};

use super::buffer::KeyBuf;
use super::extract::{self, IpPrefixes};

/// Start of the ids of preflights. Values of fields and cookies do not begin with a space, so that no key of a client is such
/// an id.
const PREFIX: &[u8] = b" preflight ";

/// Returns true for a preflight as browsers send it (Fetch, "CORS-preflight request").
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    *request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Writes the id of the preflights of the client at `address`.
pub(super) fn id(address: IpAddr, out: &mut KeyBuf) {
    out.push(PREFIX);
    extract::network(address, IpPrefixes::DEFAULT, out);
}
