//! Requests of dry runs.

use std::net::{IpAddr, Ipv4Addr};

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Request};
use thiserror::Error;
use tollgate_proxy::http::client_certificate::CertifiedClient;

/// Request of a dry run.
#[derive(Debug)]
pub struct DryRunRequest {
    /// Head of the request, as the client sends it.
    pub head: Parts,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Client by its certificate, over TLS.
    pub certificate: Option<CertifiedClient>,
    /// Number from 0 to 2^64 - 1 for `Weight` predicates; [`new`](Self::new) draws it from the request.
    pub chance: u64,
}

/// Error in the description of a request.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A header field has no colon.
    #[error("invalid header field `{0}`: write `Name: value`")]
    Field(String),
    /// A part has a form that HTTP does not know.
    #[error("invalid request `{method} {url}`: {source}")]
    Request {
        /// Method.
        method: String,
        /// URL.
        url: String,
        /// Error.
        source: http::Error,
    },
}

impl DryRunRequest {
    /// Creates a request from 127.0.0.1. Adds `Host: localhost` if neither the URL nor the `fields` have a host.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn new(method: &str, url: &str, fields: &[String]) -> Result<Self, RequestError> {
        let mut request = Request::builder().method(method).uri(url);
        for field in fields {
            let (name, value) = field.split_once(':').ok_or_else(|| RequestError::Field(field.clone()))?;
            request = request.header(name.trim(), value.trim());
        }
        let invalid = |source| RequestError::Request { method: method.to_owned(), url: url.to_owned(), source };
        let mut head = request.body(()).map_err(invalid)?.into_parts().0;
        if !head.headers.contains_key(HOST) && head.uri.authority().is_none() {
            head.headers.insert(HOST, HeaderValue::from_static("localhost"));
        }
        Ok(Self { head, peer: IpAddr::V4(Ipv4Addr::LOCALHOST), certificate: None, chance: draw(method, url, fields) })
    }
}

/// Returns the draw of a request for `Weight` predicates: the same for the same request, so that two configurations can
/// be compared (FNV-1a, then the last steps of SplitMix64).
fn draw(method: &str, url: &str, fields: &[String]) -> u64 {
    let parts = [method, url].into_iter().chain(fields.iter().map(String::as_str));
    let bytes = parts.flat_map(|part| part.bytes().chain([0]));
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_request_has_one_draw_and_requests_have_many() {
        let chance = |url: &str| DryRunRequest::new("GET", url, &[]).unwrap().chance;
        assert_eq!(chance("/a"), chance("/a"));
        let upper = (0..100).filter(|number| chance(&format!("/orders/{number}")) > u64::MAX / 2).count();
        assert!((30..70).contains(&upper), "{upper}");
    }
}
