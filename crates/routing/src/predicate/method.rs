//! `Method`: the request's method.

use std::fmt;

use super::condition::{Condition, JavaList, parse_each};
use crate::decision::Decision;
use crate::error::PredicateError;
use crate::request::{RequestPart, RequestView};

const STANDARD_METHODS: [http::Method; 9] = [
    http::Method::GET,
    http::Method::HEAD,
    http::Method::POST,
    http::Method::PUT,
    http::Method::PATCH,
    http::Method::DELETE,
    http::Method::OPTIONS,
    http::Method::TRACE,
    http::Method::CONNECT,
];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Method(Box<[http::Method]>);

// === impl Method ===

impl Method {
    pub(super) fn new(methods: &[String]) -> Result<Self, PredicateError> {
        parse_each(methods, "method", parse).map(Self)
    }

    pub(super) fn methods(&self) -> &[http::Method] {
        &self.0
    }
}

fn parse(text: &str) -> Result<http::Method, PredicateError> {
    match STANDARD_METHODS.iter().find(|method| method.as_str().eq_ignore_ascii_case(text)) {
        Some(method) => Ok(method.clone()),
        None => http::Method::from_bytes(text.as_bytes())
            .map_err(|_| PredicateError::value(text, "an HTTP method: write one such as GET")),
    }
}

impl Condition for Method {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        self.0.contains(request.method).into()
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        format!("the method is `{}`", request.method)
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::Method]
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Methods: {}", JavaList(&self.0))
    }
}
