//! `Host`: patterns for the request's host.

use std::fmt;

use super::condition::{Condition, JavaList, parse_each};
use crate::decision::Decision;
use crate::error::PredicateError;
use crate::host::HostPattern;
use crate::host_syntax::without_port;
use crate::request::{RequestPart, RequestView, Variables};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Host {
    patterns: Box<[HostPattern]>,
    port: HostPort,
}

/// The port of `Host` in the `Host` predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPort {
    /// Patterns are matched with the host and its port, as in Spring.
    Included,
    /// The same, and a pattern without a port matches the host with any port.
    Optional,
    /// Patterns are matched with the host alone (`predicate.host.include-port: false`).
    Ignored,
}

// === impl Host ===

impl Host {
    pub(super) fn new(patterns: &[String], port: HostPort) -> Result<Self, PredicateError> {
        let patterns = parse_each(patterns, "host pattern", |text| {
            HostPattern::parse(text).map_err(|source| PredicateError::Host { pattern: text.to_owned(), source })
        })?;
        Ok(Self { patterns, port })
    }

    pub(super) fn patterns(&self) -> &[HostPattern] {
        &self.patterns
    }

    /// Adds the variables of the first pattern that matches.
    pub(super) fn capture_variables(&self, request: &RequestView<'_>, out: &mut Variables) {
        if let Some((pattern, host)) = self.find(request) {
            pattern.capture(host, out);
        }
    }

    /// Returns the first pattern that matches, and the text that it matches.
    fn find<'r>(&self, request: &RequestView<'r>) -> Option<(&HostPattern, &'r str)> {
        let texts = self.texts(request);
        self.patterns.iter().find_map(|pattern| {
            let matched = texts.into_iter().flatten().find(|text| pattern.matches(text))?;
            Some((pattern, matched))
        })
    }

    /// Returns the texts of which one must match: the host, and the host without its port.
    fn texts<'r>(&self, request: &RequestView<'r>) -> [Option<&'r str>; 2] {
        let host = self.host(request);
        let is_optional = self.port == HostPort::Optional;
        let short = host.map(without_port).filter(|short| is_optional && Some(short.len()) < host.map(str::len));
        [host, short]
    }

    /// Returns the host that the patterns are matched with.
    fn host<'r>(&self, request: &RequestView<'r>) -> Option<&'r str> {
        request.host().map(|host| if self.port == HostPort::Ignored { without_port(host) } else { host })
    }
}

impl Condition for Host {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        let texts = self.texts(request);
        Decision::any(
            self.patterns.iter().flat_map(|pattern| texts.into_iter().flatten().map(|text| pattern.decide(text))),
        )
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        match self.host(request) {
            Some(host) => format!("the host is `{host}`"),
            None => "`Host` is missing".to_owned(),
        }
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::Host]
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hosts: {}", JavaList(&self.patterns))
    }
}
