//! Parts of a request that a key resolver reads.

use std::time::SystemTime;

use http::header::COOKIE;
use http::{HeaderName, Request};

use super::buffer::KeyBuf;
use super::extract;
use super::resolver::{KeyResolver, Kind};
use crate::cookie;
use crate::repeated::Repeated;

/// Field that holds all cookies.
static COOKIE_FIELD: HeaderName = COOKIE;

/// Part of a request that a resolver reads, apart from method and target.
enum Input<'r> {
    /// The request's [`RequestContext`](crate::context::RequestContext).
    Context,
    /// A header field.
    Header(&'r HeaderName),
    /// A URI template variable of the context.
    Variable(&'r str),
    /// A claim that no verifier checks.
    #[cfg(feature = "jwt")]
    UnverifiedClaim,
}

impl KeyResolver {
    /// True if it reads a claim and has no verifier.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn needs_verifier(&self) -> bool {
        self.reads(&|input| matches!(input, Input::UnverifiedClaim))
    }

    /// True if it may read the request's [`RequestContext`](crate::context::RequestContext).
    #[must_use]
    pub fn needs_context(&self) -> bool {
        self.reads(&|input| matches!(input, Input::Context | Input::Variable(_)))
    }

    /// True if it reads URI template variables of the request's context.
    #[must_use]
    pub fn needs_variables(&self) -> bool {
        self.reads(&|input| matches!(input, Input::Variable(_)))
    }

    /// Returns the names of the URI template variables that it reads.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit_inputs(&mut |input| {
            if let Input::Variable(name) = input {
                names.push(name);
            }
        });
        names
    }

    /// Returns the names of the header fields that it reads, that of the token included.
    #[must_use]
    pub fn headers(&self) -> Vec<&HeaderName> {
        let mut names = Vec::new();
        self.visit_inputs(&mut |input| {
            if let Input::Header(name) = input {
                names.push(name);
            }
        });
        names
    }

    /// Returns the time until which the accepted token of `request` is valid. `None` if it reads no token, or if the
    /// request has none.
    #[cfg_attr(not(feature = "jwt"), allow(clippy::only_used_in_recursion))] // no resolver reads a token
    pub fn token_expiry<B>(&self, request: &Request<B>) -> Option<SystemTime> {
        match &self.0 {
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, Some(verifier)) => verifier.expiry(request.headers()),
            Kind::Composite(parts) => parts.iter().filter_map(|part| part.token_expiry(request)).min(),
            Kind::OrShared(resolver) => resolver.token_expiry(request),
            _ => None,
        }
    }

    /// True if `request` repeats a field, a parameter or a cookie that this resolver reads with another value. Such a
    /// request has no key id, and is no request without one: an upstream may read a value of its own choice.
    pub fn is_ambiguous<B>(&self, request: &Request<B>) -> bool {
        match &self.0 {
            Kind::Header(name) => extract::header(request.headers(), name) == Repeated::Differing,
            Kind::Query(name) => extract::query(request.uri(), name) == Repeated::Differing,
            Kind::Cookie(name) => cookie::value(request.headers(), name) == Repeated::Differing,
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, Some(verifier)) => verifier.settings().source.is_repeated(request.headers()),
            Kind::Composite(parts) => parts.iter().any(|part| part.is_ambiguous(request)),
            _ => false,
        }
    }

    /// True if `request` has a key id or, unless one is needed, is without any.
    pub fn identifies<B>(&self, request: &Request<B>, needs_key: bool) -> bool {
        self.resolve(request, &mut KeyBuf::new()).is_some() || !(needs_key || self.is_ambiguous(request))
    }

    /// True if [`token_expiry`](Self::token_expiry) can return a time.
    #[must_use]
    pub fn reads_token(&self) -> bool {
        match &self.0 {
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, verifier) => verifier.is_some(),
            Kind::Composite(parts) => parts.iter().any(Self::reads_token),
            Kind::OrShared(resolver) => resolver.reads_token(),
            _ => false,
        }
    }

    /// True if it reads an input for which `matches` holds.
    fn reads(&self, matches: &dyn Fn(Input<'_>) -> bool) -> bool {
        let mut found = false;
        self.visit_inputs(&mut |input| found |= matches(input));
        found
    }

    fn visit_inputs<'r>(&'r self, visit: &mut dyn FnMut(Input<'r>)) {
        match &self.0 {
            // A function may read any extension.
            Kind::Ip(_) | Kind::Route | Kind::Principal | Kind::Function(_) => visit(Input::Context),
            Kind::Variable(name) => visit(Input::Variable(name)),
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, None) => visit(Input::UnverifiedClaim),
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, Some(verifier)) => visit(Input::Header(verifier.settings().source.header())),
            Kind::Header(name) => visit(Input::Header(name)),
            Kind::Cookie(_) => visit(Input::Header(&COOKIE_FIELD)),
            Kind::IpFrom(..) | Kind::Query(_) | Kind::Path | Kind::Host | Kind::Method => {}
            Kind::Composite(parts) => parts.iter().for_each(|part| part.visit_inputs(visit)),
            Kind::OrShared(resolver) => resolver.visit_inputs(visit),
        }
    }
}
