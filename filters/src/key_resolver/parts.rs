//! Parts of a key, with the place in the request from which each comes.

#![deny(clippy::wildcard_enum_match_arm)]

use http::HeaderName;

use super::resolver::{KeyResolver, Kind};

/// Place in a request from which a part of a key comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource<'r> {
    /// Address of the client.
    Client,
    /// Header field.
    Header(&'r HeaderName),
    /// Cookie.
    Cookie,
    /// Parameter of the query.
    Query,
    /// Path, or a URI template variable of it.
    Path,
    /// Host.
    Host,
    /// Method.
    Method,
    /// Route.
    Route,
    /// User that an authenticating filter established.
    Principal,
    /// JSON Web Token.
    Token,
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
            Kind::Header(name) | Kind::Credentials(name) => KeySource::Header(name),
            Kind::Query(_) => KeySource::Query,
            Kind::Cookie(_) => KeySource::Cookie,
            Kind::Path | Kind::Variable(_) => KeySource::Path,
            Kind::Host => KeySource::Host,
            Kind::Method => KeySource::Method,
            Kind::Route => KeySource::Route,
            Kind::Principal => KeySource::Principal,
            #[cfg(feature = "jwt")]
            Kind::Jwt(..) => KeySource::Token,
            Kind::IpFrom(..) | Kind::Function(_) => KeySource::Function,
        };
        vec![(source, self)]
    }
}
