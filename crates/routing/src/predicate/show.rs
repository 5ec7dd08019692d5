//! Predicates as Spring Cloud Gateway's routes endpoint shows them.

use std::fmt;

use super::regexp::Regexp;
use super::{Kind, Predicate};

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Path { patterns, match_trailing_slash } => {
                write!(f, "Paths: {}, match trailing slash: {match_trailing_slash}", List(patterns))
            }
            Kind::Method(methods) => write!(f, "Methods: {}", List(methods)),
            Kind::Host { patterns, .. } => write!(f, "Hosts: {}", List(patterns)),
            Kind::Header { written, regexp, .. } => write!(f, "Header: {written} regexp={}", OrNull(regexp)),
            Kind::Query { param, regexp } => write!(f, "Query: param={param} regexp={}", OrNull(regexp)),
            Kind::Cookie { name, regexp } => write!(f, "Cookie: name={name} regexp={regexp}"),
            Kind::After(from) => write!(f, "After: {from}"),
            Kind::Before(to) => write!(f, "Before: {to}"),
            Kind::Between(from, to) => write!(f, "Between: {from} and {to}"),
            Kind::RemoteAddr(networks) => write!(f, "RemoteAddrs: {}", List(networks.sources())),
            Kind::XForwardedRemoteAddr(forwarded) => {
                write!(f, "XForwardedRemoteAddrs: {}", List(forwarded.networks.sources()))?;
                match forwarded.max_trusted_index.get() {
                    1 => Ok(()),
                    index => write!(f, ", max trusted index: {index}"),
                }
            }
            Kind::Weight(weight) => write!(f, "Weight: {} {}", weight.group(), weight.weight()),
            Kind::Version { wanted, .. } => write!(f, "Version: {wanted}"),
            Kind::CloudFoundryRouteService => f.write_str("CloudFoundryRouteService"),
            Kind::Any(predicates) => joined(f, predicates, "||"),
            Kind::All(predicates) => joined(f, predicates, "&&"),
            Kind::Not(predicate) => write!(f, "!{predicate}"),
        }
    }
}

/// Predicates that must all hold, shown as Spring Cloud Gateway shows them: `((A && B) && C)`.
#[derive(Clone, Copy, Debug)]
pub struct AllOf<'a>(pub &'a [Predicate]);

impl fmt::Display for AllOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        joined(f, self.0, "&&")
    }
}

/// `((A op B) op C)`.
fn joined(f: &mut fmt::Formatter<'_>, predicates: &[Predicate], operator: &str) -> fmt::Result {
    for _ in 1..predicates.len() {
        f.write_str("(")?;
    }
    for (index, predicate) in predicates.iter().enumerate() {
        match index {
            0 => write!(f, "{predicate}")?,
            _ => write!(f, " {operator} {predicate})")?,
        }
    }
    Ok(())
}

struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{item}")?;
        }
        f.write_str("]")
    }
}

struct OrNull<'a>(&'a Option<Regexp>);

impl fmt::Display for OrNull<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(regexp) => regexp.fmt(f),
            None => f.write_str("null"),
        }
    }
}
