//! Parts of a request that a key resolver reads.

#![deny(clippy::wildcard_enum_match_arm)]

use std::time::SystemTime;

use http::header::COOKIE;
use http::{HeaderName, Request};

use super::buffer::KeyBuf;
use super::extract;
use super::resolver::{KeyResolver, Kind};
use crate::cookie;
#[cfg(feature = "jwt")]
use crate::jwt::Verifier;
use crate::repeated::Repeated;

/// Field that holds all cookies.
static COOKIE_FIELD: HeaderName = COOKIE;

/// Part of a request that a resolver reads, apart from method and target.
enum Input<'r> {
    /// The request's [`RequestContext`](crate::context::RequestContext).
    Context,
    /// The user in that context.
    Principal,
    /// A header field.
    Header(&'r HeaderName),
    /// A URI template variable of the context.
    Variable(&'r str),
    /// A claim that no verifier checks.
    #[cfg(feature = "jwt")]
    UnverifiedClaim,
    /// A token that a verifier checks.
    #[cfg(feature = "jwt")]
    Token(&'r Verifier),
}

impl KeyResolver {
    /// Returns true if it reads a claim and has no verifier.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn needs_verifier(&self) -> bool {
        self.reads(&|input| matches!(input, Input::UnverifiedClaim))
    }

    /// Returns true if it may read the request's [`RequestContext`](crate::context::RequestContext). Requests with the method
    /// OPTIONS need it also for [`or_preflight`](Self::or_preflight).
    #[must_use]
    pub fn needs_context(&self) -> bool {
        self.reads(&|input| matches!(input, Input::Context | Input::Principal | Input::Variable(_)))
    }

    /// Returns true if it reads the user that an authenticating filter established.
    #[must_use]
    pub fn needs_principal(&self) -> bool {
        self.reads(&|input| matches!(input, Input::Principal))
    }

    /// Returns true if it reads URI template variables of the request's context.
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
        self.visit_inputs(&mut |input| match input {
            Input::Header(name) => names.push(name),
            #[cfg(feature = "jwt")]
            Input::Token(verifier) => names.push(verifier.settings().source.header()),
            #[cfg(feature = "jwt")]
            Input::UnverifiedClaim => {}
            Input::Context | Input::Principal | Input::Variable(_) => {}
        });
        names
    }

    /// Returns the time until which the accepted token of `request` is valid. `None` if it reads no token, or if the
    /// request has none.
    #[cfg(feature = "jwt")]
    pub fn token_expiry<B>(&self, request: &Request<B>) -> Option<SystemTime> {
        let mut earliest: Option<SystemTime> = None;
        self.visit_inputs(&mut |input| {
            if let Input::Token(verifier) = input
                && let Some(expiry) = verifier.expiry(request.headers())
            {
                earliest = Some(earliest.map_or(expiry, |earliest| earliest.min(expiry)));
            }
        });
        earliest
    }

    /// Returns true if `request` has several different values of a header, parameter or cookie that this resolver reads.
    /// Limiters refuse such a request: an upstream may read another value than the one that was counted.
    pub fn is_ambiguous<B>(&self, request: &Request<B>) -> bool {
        match &self.0 {
            Kind::Header(name) | Kind::Credentials(name) => {
                extract::header(request.headers(), name) == Repeated::Differing
            }
            Kind::Query(name) => extract::query(request.uri(), name) == Repeated::Differing,
            Kind::Cookie(name) => cookie::value(request.headers(), name) == Repeated::Differing,
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, Some(verifier)) => verifier.settings().source.is_repeated(request.headers()),
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, None) => false,
            Kind::Composite(parts) => parts.iter().any(|part| part.is_ambiguous(request)),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => resolver.is_ambiguous(request),
            Kind::Ip(_) | Kind::IpFrom(..) | Kind::Path | Kind::Variable(_) | Kind::Host | Kind::Method => false,
            Kind::Route | Kind::Principal | Kind::Function(_) => false,
        }
    }

    /// Returns false if `request` lacks a key id although `needs_key` demands one, or if its key is ambiguous.
    pub fn identifies<B>(&self, request: &Request<B>, needs_key: bool) -> bool {
        self.resolve(request, &mut KeyBuf::new()).is_some() || !(needs_key || self.is_ambiguous(request))
    }

    /// Returns true if [`token_expiry`](Self::token_expiry) can return a time.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn reads_token(&self) -> bool {
        self.reads(&|input| matches!(input, Input::Token(_)))
    }

    /// Returns true if `request` has a field in which it looks for a token.
    #[cfg(feature = "jwt")]
    pub(super) fn finds_token_field<B>(&self, request: &Request<B>) -> bool {
        let has = |name: &HeaderName| request.headers().contains_key(name);
        self.reads(&|input| matches!(input, Input::Token(verifier) if has(verifier.settings().source.header())))
    }

    /// Returns true if it reads an input for which `matches` holds.
    fn reads(&self, matches: &dyn Fn(Input<'_>) -> bool) -> bool {
        let mut found = false;
        self.visit_inputs(&mut |input| found |= matches(input));
        found
    }

    fn visit_inputs<'r>(&'r self, visit: &mut dyn FnMut(Input<'r>)) {
        match &self.0 {
            // A function may read any extension.
            Kind::Ip(_) | Kind::Route | Kind::Function(_) => visit(Input::Context),
            Kind::Principal => visit(Input::Principal),
            Kind::Variable(name) => visit(Input::Variable(name)),
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, None) => visit(Input::UnverifiedClaim),
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, Some(verifier)) => visit(Input::Token(verifier)),
            Kind::Header(name) | Kind::Credentials(name) => visit(Input::Header(name)),
            Kind::Cookie(_) => visit(Input::Header(&COOKIE_FIELD)),
            Kind::IpFrom(..) | Kind::Query(_) | Kind::Path | Kind::Host | Kind::Method => {}
            Kind::Composite(parts) => parts.iter().for_each(|part| part.visit_inputs(visit)),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => resolver.visit_inputs(visit),
        }
    }
}

/// Without tokens.
#[cfg(not(feature = "jwt"))]
impl KeyResolver {
    /// Returns `None`: it reads no token.
    pub fn token_expiry<B>(&self, _: &Request<B>) -> Option<SystemTime> {
        None
    }

    /// Returns false: it reads no token.
    pub(super) fn finds_token_field<B>(&self, _: &Request<B>) -> bool {
        false
    }

    /// Returns false: it reads no token.
    #[must_use]
    pub fn reads_token(&self) -> bool {
        false
    }
}
