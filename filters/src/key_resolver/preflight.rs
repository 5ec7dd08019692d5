//! Preflights of browsers, which carry no key.

use std::net::IpAddr;

use http::header::{
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_LENGTH, COOKIE, HeaderName, HeaderValue, ORIGIN,
    TRANSFER_ENCODING,
};
use http::{Method, Request};

use super::buffer::KeyBuf;
use super::extract::{self, IpPrefixes};
use crate::context::HasBody;

/// Start of the ids of preflights. Values of fields and cookies do not begin with a space, so that no key of a client is such
/// an id.
const PREFIX: &[u8] = b" preflight ";

/// Fields that no preflight has: credentials, a body, and another method, which some upstreams read instead of `OPTIONS`.
const ABSENT: [HeaderName; 6] = [
    AUTHORIZATION,
    COOKIE,
    TRANSFER_ENCODING,
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
];

/// Returns true for a preflight as browsers send it (Fetch, "CORS-preflight request"): without credentials and a body.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    *request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && !ABSENT.iter().any(|name| headers.contains_key(name))
        && headers.get_all(CONTENT_LENGTH).iter().all(is_zero)
        && request.extensions().get::<HasBody>().is_none()
}

fn is_zero(length: &HeaderValue) -> bool {
    length.as_bytes().iter().all(|digit| *digit == b'0')
}

/// Writes the id of the preflights of the client at `address`.
pub(super) fn id(address: IpAddr, out: &mut KeyBuf) {
    out.push(PREFIX);
    extract::network(address, IpPrefixes::DEFAULT, out);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_preflight_has_neither_credentials_nor_a_body_nor_another_method() {
        let asks = |more: &[(&str, &str)]| {
            let mut request = Request::builder().method("OPTIONS").header("origin", "https://shop.example");
            for (name, value) in [("access-control-request-method", "POST")].iter().chain(more) {
                request = request.header(*name, *value);
            }
            is_preflight(&request.body(()).unwrap())
        };
        assert!(asks(&[]) && asks(&[("content-length", "0"), ("accept", "*/*"), ("x-key", "")]));
        for field in [
            ("authorization", "Bearer x"),
            ("authorization", ""),
            ("cookie", "a=b"),
            ("content-length", "1"),
            ("content-length", "00010"),
            ("transfer-encoding", "chunked"),
            ("x-http-method-override", "DELETE"),
            ("x-http-method", "DELETE"),
            ("x-method-override", "DELETE"),
        ] {
            assert!(!asks(&[field]), "{field:?}");
        }
        assert!(!asks(&[("content-length", "0"), ("content-length", "5")]));
        let mut request = Request::options("/").header("origin", "a").header("access-control-request-method", "PUT");
        request.extensions_mut().unwrap().insert(HasBody);
        assert!(!is_preflight(&request.body(()).unwrap()));
    }
}
