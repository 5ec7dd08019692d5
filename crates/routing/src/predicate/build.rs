//! Constructors of the predicates that are variants of [`Kind`].

use super::host::{Host, HostPort};
use super::method::Method;
use super::path::Path;
use super::weight::Weight;
use super::{Kind, Predicate};
use crate::error::PredicateError;

impl Predicate {
    /// `Path`: one of the patterns matches the path. The first pattern that matches sets the variables.
    ///
    /// If `match_trailing_slash` is true, a `/` at the end of the request's path may be ignored.
    ///
    /// # Errors
    /// Returns an error if `patterns` is empty, or one of them is invalid.
    pub fn path(patterns: &[String], match_trailing_slash: bool) -> Result<Self, PredicateError> {
        Path::new(patterns, match_trailing_slash).map(|path| Self(Kind::Path(path)))
    }

    /// `Method`: the method is one of these. Methods are case-sensitive; a standard one may be written in lower case.
    ///
    /// # Errors
    /// Returns an error if `methods` is empty, or one of them is not a token (RFC 9110, section 9.1).
    pub fn method(methods: &[String]) -> Result<Self, PredicateError> {
        Method::new(methods).map(|method| Self(Kind::Method(method)))
    }

    /// `Host`: one of the patterns matches `Host`. The first pattern that matches sets the variables.
    ///
    /// # Errors
    /// Returns an error if `patterns` is empty, or one of them is invalid.
    pub fn host(patterns: &[String], port: HostPort) -> Result<Self, PredicateError> {
        Host::new(patterns, port).map(|host| Self(Kind::Host(host)))
    }

    /// `Weight`: each request selects one route of `group`, with a probability in proportion to the routes' weights. The
    /// predicate holds for the selected route. A weight of 0 never holds.
    ///
    /// The shares are known once a [`RouteTable`](crate::RouteTable) has all routes. Outside of a table the predicate is
    /// the only one of its group.
    #[must_use]
    pub fn weight(group: &str, weight: u32) -> Self {
        Self(Kind::Weight(Weight::new(group, weight)))
    }

    /// `any`: at least one of the predicates holds. The first that holds sets the variables.
    #[must_use]
    pub fn any(predicates: Vec<Self>) -> Self {
        Self(Kind::Any(predicates.into()))
    }

    /// `all`: all of the predicates hold.
    #[must_use]
    pub fn all(predicates: Vec<Self>) -> Self {
        Self(Kind::All(predicates.into()))
    }

    /// `not`: the predicate does not hold. Sets no variables.
    #[must_use]
    pub fn negated(predicate: Self) -> Self {
        Self(Kind::Not(Box::new(predicate)))
    }
}
