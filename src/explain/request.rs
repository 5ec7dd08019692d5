//! Requests of dry runs.

use std::net::{IpAddr, Ipv4Addr};

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Request};
use thiserror::Error;

/// Request of a dry run.
#[derive(Debug)]
pub struct DryRunRequest {
    /// Head of the request, as the client sends it.
    pub head: Parts,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Random number for `Weight` predicates.
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
        Ok(Self { head, peer: IpAddr::V4(Ipv4Addr::LOCALHOST), chance: fastrand::u64(..) })
    }
}
