//! Key resolvers by name.

use std::fmt;

use http::HeaderName;
use thiserror::Error;

use super::credentials;
use super::extract::IpPrefixes;
use super::resolver::{KeyResolver, Kind};
use crate::api_key::KeyPart;
use crate::client_certificate::CertificatePart;

/// Error of a text that names no key resolver.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyResolverError {
    /// Unknown name.
    #[error(
        "unknown key resolver `{0}`; use ip, ip/V4/V6, header:NAME, query:NAME, cookie:NAME, path, path:{{variable}}, host, method, route, jwt:CLAIM, tls:san-uri, api-key or principal"
    )]
    Unknown(String),
    /// The name after the colon is missing.
    #[error("key resolver `{0}` needs a name after the colon")]
    MissingName(String),
    /// The text after the colon is not a header name.
    #[error("key resolver `{0}` does not name a valid header")]
    BadHeaderName(String),
    /// The text after `path:` is not `{variable}`.
    #[error("key resolver `{0}` needs a variable in braces, as in `path:{{id}}`")]
    BadVariable(String),
    /// This build lacks the feature `jwt`.
    #[error("key resolver `{0}` needs the feature `jwt`, which this build lacks")]
    NeedsJwt(String),
    /// The text after `tls:` is no part of a certificate.
    #[error(
        "key resolver `{0}` names no part of a certificate; use tls:san-uri, tls:san-dns, tls:san-email, tls:subject-cn or tls:fingerprint-sha256"
    )]
    BadCertificatePart(String),
    /// The numbers after `ip/` are not prefix lengths.
    #[error("key resolver `{0}` needs the prefix lengths of IPv4 (1 to 32) and of IPv6 (1 to 128), as in `ip/24/56`")]
    BadPrefixes(String),
}

impl KeyResolver {
    /// Parses the name of a resolver. See the [module](crate::key_resolver) for the names.
    ///
    /// # Errors
    /// The text names no resolver.
    pub fn parse(text: &str) -> Result<Self, KeyResolverError> {
        let text = text.trim();
        match text.split_once(':') {
            None => without_name(text),
            Some((kind, name)) => with_name(text, kind.trim(), name.trim()),
        }
        .map(Self)
    }
}

/// Parses a resolver without a colon.
fn without_name(text: &str) -> Result<Kind, KeyResolverError> {
    Ok(match text {
        "ip" => Kind::Ip(IpPrefixes::DEFAULT),
        "path" => Kind::Path,
        "host" => Kind::Host,
        "method" => Kind::Method,
        "route" => Kind::Route,
        "principal" => Kind::Principal,
        "api-key" => Kind::ApiKey(KeyPart::Id, None),
        "header" | "query" | "cookie" | "jwt" | "tls" => return Err(KeyResolverError::MissingName(text.to_owned())),
        _ => match text.strip_prefix("ip/") {
            Some(bits) => Kind::Ip(prefixes(bits).ok_or_else(|| KeyResolverError::BadPrefixes(text.to_owned()))?),
            None => return Err(KeyResolverError::Unknown(text.to_owned())),
        },
    })
}

/// Parses `text`, which is `kind:name`.
fn with_name(text: &str, kind: &str, name: &str) -> Result<Kind, KeyResolverError> {
    Ok(match (kind, name) {
        ("header" | "query" | "cookie" | "path" | "jwt" | "tls", "") => {
            return Err(KeyResolverError::MissingName(text.to_owned()));
        }
        ("header", name) => match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) if credentials::are_in(name.as_str()) => Kind::Credentials(name),
            Ok(name) => Kind::Header(name),
            Err(_) => return Err(KeyResolverError::BadHeaderName(text.to_owned())),
        },
        ("query", name) => Kind::Query(name.into()),
        ("tls", name) => match CertificatePart::parse(name) {
            Some(part) => Kind::Certificate(part),
            None => return Err(KeyResolverError::BadCertificatePart(text.to_owned())),
        },
        ("cookie", name) => Kind::Cookie(name.into()),
        #[cfg(feature = "jwt")]
        ("jwt", claim) => Kind::Jwt(Some(claim.into()), None),
        #[cfg(not(feature = "jwt"))]
        ("jwt", _) => return Err(KeyResolverError::NeedsJwt(text.to_owned())),
        ("path", variable) => match variable.strip_prefix('{').and_then(|v| v.strip_suffix('}')) {
            Some(name) if !name.is_empty() => Kind::Variable(name.into()),
            _ => return Err(KeyResolverError::BadVariable(text.to_owned())),
        },
        _ => return Err(KeyResolverError::Unknown(text.to_owned())),
    })
}

/// Parses `V4/V6`, both in bits.
fn prefixes(text: &str) -> Option<IpPrefixes> {
    let (v4, v6) = text.split_once('/')?;
    let bits = |text: &str, max: u8| text.trim().parse().ok().filter(|bits| (1..=max).contains(bits));
    Some(IpPrefixes { v4: bits(v4, 32)?, v6: bits(v6, 128)? })
}

/// Writes the name that [`KeyResolver::parse`] accepts; a list is joined by commas. Functions have no such name.
impl fmt::Display for KeyResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Ip(IpPrefixes::DEFAULT) => f.write_str("ip"),
            Kind::Ip(prefixes) => write!(f, "ip/{}/{}", prefixes.v4, prefixes.v6),
            Kind::IpFrom(..) => f.write_str("ip-from-function"),
            Kind::Header(name) | Kind::Credentials(name) => write!(f, "header:{name}"),
            Kind::Query(name) => write!(f, "query:{name}"),
            Kind::Cookie(name) => write!(f, "cookie:{name}"),
            Kind::Path => f.write_str("path"),
            Kind::Variable(name) => write!(f, "path:{{{name}}}"),
            Kind::Host => f.write_str("host"),
            Kind::Method => f.write_str("method"),
            Kind::Route => f.write_str("route"),
            Kind::Principal => f.write_str("principal"),
            Kind::Certificate(part) => write!(f, "tls:{}", part.as_str()),
            #[cfg(feature = "jwt")]
            Kind::Jwt(None, _) => f.write_str("jwt"),
            #[cfg(feature = "jwt")]
            Kind::Jwt(Some(claim), _) => write!(f, "jwt:{claim}"),
            Kind::ApiKey(..) => f.write_str("api-key"),
            Kind::Function(_) => f.write_str("function"),
            Kind::Composite(parts) => parts.iter().enumerate().try_for_each(|(at, part)| {
                f.write_str(if at == 0 { "" } else { "," })?;
                part.fmt(f)
            }),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => resolver.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_resolver_is_the_one_it_was_parsed_from() {
        let texts = [
            "ip",
            "ip/24/56",
            "header:x-key",
            "header:authorization",
            "query:q",
            "cookie:c",
            "path",
            "path:{id}",
            "host",
            "method",
            "route",
            "principal",
            "tls:san-uri",
            "tls:fingerprint-sha256",
            "api-key",
        ];
        for text in texts {
            assert_eq!(KeyResolver::parse(text).map(|resolver| resolver.to_string()), Ok(text.to_owned()));
        }
        let parts = vec![KeyResolver::client_ip(), KeyResolver::principal()];
        assert_eq!(KeyResolver::composite(parts).or_shared().to_string(), "ip,principal");
    }
}
