//! Parts of a request that a key resolver reads.

#![deny(clippy::wildcard_enum_match_arm)]

use std::time::SystemTime;

use http::header::COOKIE;
use http::{HeaderName, Request};

use super::buffer::KeyBuf;
use super::extract;
use super::resolver::{KeyResolver, Kind};
use crate::api_key::{Identity, Settings};
use crate::client_certificate::CertificatePart;
use crate::cookie;
#[cfg(feature = "jwt")]
use crate::jwt::Verifier;
use crate::query;
use crate::repeated::Repeated;

/// Nothing verifies a token.
#[cfg(not(feature = "jwt"))]
type Verifier = std::convert::Infallible;

/// Field that holds all cookies.
static COOKIE_FIELD: HeaderName = COOKIE;

/// Place in a request from which a part of a key comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource<'r> {
    /// Address of the client in the request's [`RequestContext`](crate::context::RequestContext).
    Client,
    /// Address that a function reads from an extension.
    Extension,
    /// Header field.
    Header(&'r HeaderName),
    /// Cookie of this name.
    Cookie(&'r str),
    /// Parameter of the query.
    Query(&'r str),
    /// Path.
    Path,
    /// URI template variable.
    Variable(&'r str),
    /// Host.
    Host,
    /// Method.
    Method,
    /// Route.
    Route,
    /// User that an authenticating filter established.
    Principal,
    /// Certificate of the client.
    Certificate(CertificatePart),
    /// JSON Web Token that a verifier checks; `None`: nothing does.
    Token(Option<&'r Verifier>),
    /// Verified API key, and its places.
    ApiKey(Option<&'r Settings>),
    /// Function of a program that uses this library.
    Function,
}

impl KeyResolver {
    /// Returns the parts of the key: the source of each, and the resolver of the part alone.
    #[must_use]
    pub fn parts(&self) -> Vec<(KeySource<'_>, &Self)> {
        let source = match &self.0 {
            Kind::Composite(parts) => return parts.iter().flat_map(Self::parts).collect(),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => return resolver.parts(),
            Kind::Ip(_) => KeySource::Client,
            Kind::IpFrom(..) => KeySource::Extension,
            Kind::Header(name) | Kind::Credentials(name) => KeySource::Header(name),
            Kind::Query(name) => KeySource::Query(name),
            Kind::Cookie(name) => KeySource::Cookie(name),
            Kind::Path => KeySource::Path,
            Kind::Variable(name) => KeySource::Variable(name),
            Kind::Host => KeySource::Host,
            Kind::Method => KeySource::Method,
            Kind::Route => KeySource::Route,
            Kind::Principal => KeySource::Principal,
            Kind::Certificate(part) => KeySource::Certificate(*part),
            #[cfg(feature = "jwt")]
            Kind::Jwt(_, verifier) => KeySource::Token(verifier.as_deref()),
            Kind::ApiKey(_, settings) => KeySource::ApiKey(settings.as_deref()),
            Kind::Function(_) => KeySource::Function,
        };
        vec![(source, self)]
    }

    /// Returns true if a part has a source for which `matches` holds.
    fn reads(&self, matches: impl Fn(KeySource<'_>) -> bool) -> bool {
        self.parts().into_iter().any(|(source, _)| matches(source))
    }

    /// Returns true if it reads a claim and has no verifier.
    #[must_use]
    pub fn needs_verifier(&self) -> bool {
        self.reads(|source| matches!(source, KeySource::Token(None)))
    }

    /// Returns true if it reads an API key and has no places of keys.
    #[must_use]
    pub fn needs_api_keys(&self) -> bool {
        self.reads(|source| matches!(source, KeySource::ApiKey(None)))
    }

    /// Returns true if it reads an API key.
    #[must_use]
    pub fn reads_api_key(&self) -> bool {
        self.reads(|source| matches!(source, KeySource::ApiKey(_)))
    }

    /// Returns true if it may read the request's [`RequestContext`](crate::context::RequestContext); a function may read any
    /// extension. Requests with the method OPTIONS need it also for [`or_preflight`](Self::or_preflight).
    #[must_use]
    pub fn needs_context(&self) -> bool {
        self.reads(|source| {
            matches!(source, KeySource::Client | KeySource::Route | KeySource::Function | KeySource::Principal)
                || matches!(source, KeySource::Variable(_) | KeySource::ApiKey(_))
        })
    }

    /// Returns true if it reads the user that an authenticating filter established.
    #[must_use]
    pub fn needs_principal(&self) -> bool {
        self.reads(|source| source == KeySource::Principal)
    }

    /// Returns true if it reads URI template variables of the request's context.
    #[must_use]
    pub fn needs_variables(&self) -> bool {
        !self.variables().is_empty()
    }

    /// Returns the names of the URI template variables that it reads.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        let name = |(source, _)| if let KeySource::Variable(name) = source { Some(name) } else { None };
        self.parts().into_iter().filter_map(name).collect()
    }

    /// Returns the names of the header fields that it reads, that of the token included.
    #[must_use]
    pub fn headers(&self) -> Vec<&HeaderName> {
        let names = |(source, _)| -> Vec<&HeaderName> {
            match source {
                KeySource::Header(name) => vec![name],
                KeySource::Cookie(_) => vec![&COOKIE_FIELD],
                #[cfg(feature = "jwt")]
                KeySource::Token(verifier) => {
                    verifier.map(|verifier| verifier.settings().source.header()).into_iter().collect()
                }
                #[cfg(not(feature = "jwt"))]
                KeySource::Token(_) => Vec::new(),
                KeySource::ApiKey(settings) => settings.map(Settings::headers).into_iter().flatten().collect(),
                KeySource::Client | KeySource::Extension | KeySource::Query(_) | KeySource::Path => Vec::new(),
                KeySource::Variable(_) | KeySource::Host | KeySource::Method | KeySource::Route => Vec::new(),
                KeySource::Principal | KeySource::Certificate(_) | KeySource::Function => Vec::new(),
            }
        };
        self.parts().into_iter().flat_map(names).collect()
    }

    /// Returns the time until which the accepted token of `request` is valid. `None` if it reads no token, or if the
    /// request has none.
    #[cfg(feature = "jwt")]
    pub fn token_expiry<B>(&self, request: &Request<B>) -> Option<SystemTime> {
        let verifier = |(source, _)| if let KeySource::Token(verifier) = source { verifier } else { None };
        let expiry = |verifier: &Verifier| verifier.expiry(request.headers());
        self.parts().into_iter().filter_map(verifier).filter_map(expiry).min()
    }

    /// Returns true if `request` has several different values of a header, parameter or cookie that this resolver reads.
    /// Limiters refuse such a request: an upstream may read another value than the one that was counted.
    pub fn is_ambiguous<B>(&self, request: &Request<B>) -> bool {
        self.parts().into_iter().any(|(source, part)| match source {
            KeySource::Header(name) => extract::header(request.headers(), name) == Repeated::Differing,
            KeySource::Query(name) => query::value(request.uri(), name) == Repeated::Differing,
            KeySource::Cookie(name) => cookie::value(request.headers(), name) == Repeated::Differing,
            #[cfg(feature = "jwt")]
            KeySource::Token(verifier) => {
                verifier.is_some_and(|verifier| verifier.settings().source.is_repeated(request.headers()))
            }
            #[cfg(not(feature = "jwt"))]
            KeySource::Token(_) => false,
            KeySource::Client | KeySource::Extension | KeySource::Path | KeySource::Variable(_) => false,
            KeySource::Certificate(part) => extract::certificate(request.extensions(), part) == Repeated::Differing,
            KeySource::Host | KeySource::Method | KeySource::Route => false,
            KeySource::ApiKey(_) => Identity::is_differing(request),
            KeySource::Function => matches!(&part.0, Kind::Function(function) if function.is_ambiguous(request)),
            KeySource::Principal => false,
        })
    }

    /// Returns false if `request` lacks a key id although `needs_key` demands one, or if its key is ambiguous.
    pub fn identifies<B>(&self, request: &Request<B>, needs_key: bool) -> bool {
        self.resolve(request, &mut KeyBuf::new()).is_some() || !(needs_key || self.is_ambiguous(request))
    }

    /// Returns true if [`token_expiry`](Self::token_expiry) can return a time.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn reads_token(&self) -> bool {
        self.reads(|source| matches!(source, KeySource::Token(Some(_))))
    }

    /// Returns true if `request` has a field in which it looks for a token.
    #[cfg(feature = "jwt")]
    pub(super) fn finds_token_field<B>(&self, request: &Request<B>) -> bool {
        let has = |name: &HeaderName| request.headers().contains_key(name);
        self.reads(
            |source| matches!(source, KeySource::Token(Some(verifier)) if has(verifier.settings().source.header())),
        )
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
