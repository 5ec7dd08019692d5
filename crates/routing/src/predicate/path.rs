//! `Path`: patterns for the request's path.

use std::fmt;
use std::sync::Arc;

use super::condition::{Condition, JavaList, parse_each};
use crate::decision::Decision;
use crate::error::PredicateError;
use crate::path::PathPattern;
use crate::request::{RequestPart, RequestView, Variables};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    /// Shared with the copies of the predicate, of which a route table has one.
    patterns: Arc<[PathPattern]>,
    match_trailing_slash: bool,
}

// === impl Path ===

impl Path {
    pub(super) fn new(patterns: &[String], match_trailing_slash: bool) -> Result<Self, PredicateError> {
        let patterns = parse_each(patterns, "path pattern", |text| {
            PathPattern::parse(text).map_err(|source| PredicateError::Path { pattern: text.to_owned(), source })
        })?;
        Ok(Self { patterns: patterns.into(), match_trailing_slash })
    }

    pub(super) fn patterns(&self) -> &[PathPattern] {
        &self.patterns
    }

    pub(super) fn matches_trailing_slash(&self) -> bool {
        self.match_trailing_slash
    }

    /// Adds the variables of the first pattern that matches.
    pub(super) fn capture_variables(&self, request: &RequestView<'_>, out: &mut Variables) {
        let slash = self.match_trailing_slash;
        if let Some(pattern) = self.patterns.iter().find(|pattern| pattern.matches(request.path, slash)) {
            pattern.capture(request.path, slash, out);
        }
    }
}

impl Condition for Path {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        Decision::any(self.patterns.iter().map(|pattern| pattern.decide(request.path, self.match_trailing_slash)))
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        format!("the path is `{}`", request.path)
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::Path]
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Paths: {}, match trailing slash: {}", JavaList(&self.patterns), self.match_trailing_slash)
    }
}
