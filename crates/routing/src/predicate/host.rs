//! `Host`: patterns for the request's host.

use std::fmt;

use super::condition::{Condition, JavaList, parse_each};
use super::error::PredicateError;
use crate::host::{HostPattern, without_port};
use crate::request::{RequestView, Variables};

#[derive(Clone, Debug)]
pub(super) struct Host {
    patterns: Box<[HostPattern]>,
    include_port: bool,
}

// === impl Host ===

impl Host {
    pub(super) fn new(patterns: &[String], include_port: bool) -> Result<Self, PredicateError> {
        let patterns = parse_each(patterns, "host pattern", |text| {
            HostPattern::parse(text).map_err(|source| PredicateError::Host { pattern: text.to_owned(), source })
        })?;
        Ok(Self { patterns, include_port })
    }

    pub(super) fn patterns(&self) -> &[HostPattern] {
        &self.patterns
    }

    /// Adds the variables of the first pattern that matches.
    pub(super) fn capture_variables(&self, request: &RequestView<'_>, out: &mut Variables) {
        let Some(host) = self.host(request) else { return };
        if let Some(pattern) = self.patterns.iter().find(|pattern| pattern.matches(host)) {
            pattern.capture(host, out);
        }
    }

    /// Returns the host that the patterns are matched with.
    fn host<'r>(&self, request: &RequestView<'r>) -> Option<&'r str> {
        request.host().map(|host| if self.include_port { host } else { without_port(host) })
    }
}

impl Condition for Host {
    fn matches(&self, request: &RequestView<'_>) -> bool {
        self.host(request).is_some_and(|host| self.patterns.iter().any(|pattern| pattern.matches(host)))
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        match self.host(request) {
            Some(host) => format!("the host is `{host}`"),
            None => "`Host` is missing".to_owned(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hosts: {}", JavaList(&self.patterns))
    }
}
