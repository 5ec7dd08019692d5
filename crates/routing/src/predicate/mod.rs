//! Route predicates: Spring Cloud Gateway's route predicate factories.
//!
//! Each file holds one [`Condition`] and its constructor. `Path`, `Host`, `Method`, `Weight` and the combinations are
//! variants of [`Kind`]: the route table inspects them, or most routes have them, and they need no dynamic dispatch.
//! Their constructors are in `build`. All other predicates are in [`rows`], each with a [`PredicateRow`](row::PredicateRow)
//! that describes its arguments to the configuration.

mod build;
mod condition;
pub(crate) mod host;
mod implication;
mod method;
mod path;
pub(crate) mod row;
pub(crate) mod rows;
mod value_regex;
pub(crate) mod weight;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use http::HeaderName;

use self::condition::Condition;
use self::host::Host;
use self::method::Method;
use self::path::Path;
use self::weight::Weight;
use crate::decision::Decision;
use crate::host::HostPattern;
use crate::path::PathPattern;
use crate::request::{RequestPart, RequestView, Variables};

/// A condition on a request. It is displayed as in Spring Cloud Gateway's routes endpoint:
/// `Paths: [/orders/**], match trailing slash: false`. `{:#}` masks the expected values of header fields, cookies and parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Path(Path),
    Host(Host),
    Method(Method),
    Weight(Weight),
    Any(Box<[Predicate]>),
    All(Box<[Predicate]>),
    Not(Box<Predicate>),
    Other(Arc<dyn Condition>),
}

/// A predicate that combines others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Combination<'p> {
    /// At least one must hold.
    Any(&'p [Predicate]),
    /// All must hold.
    All(&'p [Predicate]),
}

/// Predicates that must all hold, displayed as in Spring Cloud Gateway: `((A && B) && C)`; by `{:#}` as [`Predicate`] is.
#[derive(Clone, Copy, Debug)]
pub struct AllOf<'a>(pub &'a [Predicate]);

// === impl Predicate ===

impl Predicate {
    /// Creates a predicate of a condition that is not a variant of [`Kind`].
    fn other(condition: impl Condition + 'static) -> Self {
        Self(Kind::Other(Arc::new(condition)))
    }

    /// Returns true if the condition certainly holds.
    #[must_use]
    pub fn matches(&self, request: &RequestView<'_>) -> bool {
        self.decide(request) == Decision::Yes
    }

    /// Decides if the condition holds.
    #[must_use]
    pub fn decide(&self, request: &RequestView<'_>) -> Decision {
        match &self.0 {
            Kind::Path(path) => path.decide(request),
            Kind::Host(host) => host.decide(request),
            Kind::Method(method) => method.decide(request),
            Kind::Weight(weight) => weight.decide(request),
            Kind::Any(predicates) => Decision::any(predicates.iter().map(|predicate| predicate.decide(request))),
            Kind::All(predicates) => Decision::all(predicates.iter().map(|predicate| predicate.decide(request))),
            Kind::Not(predicate) => predicate.decide(request).negated(),
            Kind::Other(condition) => condition.decide(request),
        }
    }

    /// Describes the values of `request` that this predicate reads: ``the path is `/a` ``, ``header `X-Id` is missing``.
    ///
    /// The text contains values of the request, so show it only to the sender of the request and to operators.
    #[must_use]
    pub fn observe(&self, request: &RequestView<'_>) -> String {
        match &self.0 {
            Kind::Path(path) => path.observe(request),
            Kind::Host(host) => host.observe(request),
            Kind::Method(method) => method.observe(request),
            Kind::Weight(weight) => weight.observe(request),
            Kind::Any(predicates) | Kind::All(predicates) => {
                let observed: Vec<String> = predicates.iter().map(|predicate| predicate.observe(request)).collect();
                observed.join("; ")
            }
            Kind::Not(predicate) => predicate.observe(request),
            Kind::Other(condition) => condition.observe(request),
        }
    }

    /// Adds the variables of this predicate, which must hold: those of `Path` and `Host`. Of several alternatives, the
    /// first that matches sets the variables.
    pub fn capture_variables(&self, request: &RequestView<'_>, out: &mut Variables) {
        match &self.0 {
            Kind::Path(path) => path.capture_variables(request, out),
            Kind::Host(host) => host.capture_variables(request, out),
            Kind::Any(predicates) => {
                if let Some(first) = predicates.iter().find(|predicate| predicate.matches(request)) {
                    first.capture_variables(request, out);
                }
            }
            Kind::All(predicates) => predicates.iter().for_each(|predicate| predicate.capture_variables(request, out)),
            Kind::Method(_) | Kind::Weight(_) | Kind::Not(_) | Kind::Other(_) => {}
        }
    }

    /// Returns the names of the variables that [`capture_variables`](Self::capture_variables) may set.
    #[must_use]
    pub fn variable_names(&self) -> Vec<&str> {
        match &self.0 {
            Kind::Path(path) => path.patterns().iter().flat_map(PathPattern::variable_names).collect(),
            Kind::Host(host) => host.patterns().iter().flat_map(HostPattern::variable_names).collect(),
            Kind::Any(predicates) | Kind::All(predicates) => {
                predicates.iter().flat_map(Predicate::variable_names).collect()
            }
            Kind::Method(_) | Kind::Weight(_) | Kind::Not(_) | Kind::Other(_) => Vec::new(),
        }
    }

    /// Returns the patterns of a `Path` predicate.
    #[must_use]
    pub fn path_patterns(&self) -> Option<&[PathPattern]> {
        if let Kind::Path(path) = &self.0 { Some(path.patterns()) } else { None }
    }

    /// Returns the path patterns of this predicate and of the predicates in it, except negated ones.
    #[must_use]
    pub fn nested_path_patterns(&self) -> Vec<&PathPattern> {
        match &self.0 {
            Kind::Any(predicates) | Kind::All(predicates) => {
                predicates.iter().flat_map(Self::nested_path_patterns).collect()
            }
            Kind::Path(path) => path.patterns().iter().collect(),
            Kind::Host(_) | Kind::Method(_) | Kind::Weight(_) | Kind::Not(_) | Kind::Other(_) => Vec::new(),
        }
    }

    /// Returns the parts of requests that this predicate and those in it read.
    #[must_use]
    pub fn reads(&self) -> Vec<RequestPart<'_>> {
        match &self.0 {
            Kind::Path(path) => path.reads(),
            Kind::Host(host) => host.reads(),
            Kind::Method(method) => method.reads(),
            Kind::Weight(weight) => weight.reads(),
            Kind::Any(predicates) | Kind::All(predicates) => predicates.iter().flat_map(Self::reads).collect(),
            Kind::Not(predicate) => predicate.reads(),
            Kind::Other(condition) => condition.reads(),
        }
    }

    /// Returns the names of the header fields that this predicate and those in it read, except `Host`.
    pub fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.reads().into_iter().filter_map(|part| if let RequestPart::Header(name) = part { Some(name) } else { None })
    }

    /// Returns the group and the weight of a `Weight` predicate.
    #[must_use]
    pub fn as_weight(&self) -> Option<(&str, u32)> {
        if let Kind::Weight(weight) = &self.0 { Some((weight.group(), weight.weight())) } else { None }
    }

    /// Returns the methods of a `Method` predicate.
    #[must_use]
    pub fn methods(&self) -> Option<&[http::Method]> {
        if let Kind::Method(method) = &self.0 { Some(method.methods()) } else { None }
    }

    /// Returns the patterns of a `Host` predicate.
    pub(crate) fn host_patterns(&self) -> Option<&[HostPattern]> {
        if let Kind::Host(host) = &self.0 { Some(host.patterns()) } else { None }
    }

    /// Returns the members of an `any` or `all` predicate.
    pub(crate) fn combination(&self) -> Option<Combination<'_>> {
        match &self.0 {
            Kind::Any(predicates) => Some(Combination::Any(predicates)),
            Kind::All(predicates) => Some(Combination::All(predicates)),
            Kind::Path(_) | Kind::Host(_) | Kind::Method(_) | Kind::Weight(_) | Kind::Not(_) | Kind::Other(_) => None,
        }
    }

    /// Returns all `Weight` predicates in `predicates`, nested ones included.
    pub(crate) fn weights_mut(predicates: &mut [Self]) -> Vec<&mut Weight> {
        let weights = predicates.iter_mut().map(|predicate| match &mut predicate.0 {
            Kind::Weight(weight) => vec![weight],
            Kind::Any(inner) | Kind::All(inner) => Self::weights_mut(inner),
            Kind::Not(inner) => Self::weights_mut(std::slice::from_mut(inner)),
            Kind::Path(_) | Kind::Host(_) | Kind::Method(_) | Kind::Other(_) => Vec::new(),
        });
        weights.flatten().collect()
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Path(path) => path.fmt(f),
            Kind::Host(host) => host.fmt(f),
            Kind::Method(method) => method.fmt(f),
            Kind::Weight(weight) => weight.fmt(f),
            Kind::Any(predicates) => write_joined(f, predicates, "||"),
            Kind::All(predicates) => write_joined(f, predicates, "&&"),
            Kind::Not(predicate) => {
                f.write_str("!")?;
                predicate.fmt(f)
            }
            Kind::Other(condition) => condition.fmt(f),
        }
    }
}

// === impl AllOf ===

impl fmt::Display for AllOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_joined(f, self.0, "&&")
    }
}

/// Writes `((A op B) op C)`.
fn write_joined(f: &mut fmt::Formatter<'_>, predicates: &[Predicate], operator: &str) -> fmt::Result {
    for _ in 1..predicates.len() {
        f.write_str("(")?;
    }
    for (index, predicate) in predicates.iter().enumerate() {
        if index > 0 {
            write!(f, " {operator} ")?;
        }
        fmt::Display::fmt(predicate, f)?;
        if index > 0 {
            f.write_str(")")?;
        }
    }
    Ok(())
}
