//! What a request is counted under: Spring Cloud Gateway's `KeyResolver`, by name.
//!
//! | Text | Key id |
//! |---|---|
//! | `ip` | the client's address from [`RequestContext::client_ip`]; IPv4 whole, IPv6 by /64, IPv4-mapped as IPv4 |
//! | `ip/V4/V6` | the same by so many leading bits: `ip/24/56` |
//! | `header:NAME` | the first value of the header |
//! | `query:NAME` | the first value of the query parameter, decoded |
//! | `cookie:NAME` | the first cookie of that name |
//! | `path` | the request's path as it stands, after the edits of earlier filters |
//! | `path:{var}` | a URI template variable of the matched route, decoded |
//! | `host` | the host asked for, in lower case without port |
//! | `method` | the request's method |
//! | `route` | the id of the matched route: one bucket for all of its clients |
//! | `jwt:CLAIM` | a claim of the request's verified JSON Web Token; `a.b` is the member `b` of the claim `a` (feature `jwt`) |
//! | `principal` | the user that an authenticating filter established |
//!
//! Values are decoded so that a client cannot get a fresh bucket by spelling the same value another way. What is
//! missing or empty has no key id, and the limiter's empty-key rule applies. Spring differs in two corners: an empty
//! string is one shared bucket there, and the literal `____EMPTY_KEY__` counts as missing, which lets a client
//! opt out; here it is a key like any other.
//!
//! ```
//! use http::Request;
//! use tollgate_filters::key_resolver::{KeyBuf, KeyResolver};
//!
//! let resolver = KeyResolver::parse("header:X-User")?;
//! let request = Request::builder().header("x-user", "ada").body(())?;
//! assert_eq!(resolver.resolve(&request, &mut KeyBuf::new()), Some(&b"ada"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod buffer;
mod source;

#[cfg(feature = "jwt")]
use std::sync::Arc;

use http::{HeaderName, Request};
use thiserror::Error;

pub use self::buffer::KeyBuf;
use self::source::IpPrefixes;
#[cfg(feature = "jwt")]
pub(crate) use self::source::cookie;
use crate::context::RequestContext;
#[cfg(feature = "jwt")]
use crate::jwt::Verifier;

/// Makes a key id of a request. See the [module](self) for the kinds there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyResolver(Kind);

/// Text that names no key resolver.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyResolverError {
    /// No resolver is called so.
    #[error(
        "unknown key resolver `{0}`, use ip, ip/V4/V6, header:NAME, query:NAME, cookie:NAME, path, path:{{variable}}, host, method, route, jwt:CLAIM or principal"
    )]
    Unknown(String),
    /// The part behind the colon is missing.
    #[error("key resolver `{0}` needs a name behind the colon")]
    MissingName(String),
    /// The part behind the colon is no header name.
    #[error("key resolver `{0}` does not name a header")]
    BadHeaderName(String),
    /// The part behind `path:` is not `{variable}`.
    #[error("key resolver `{0}` needs a variable in braces, as in `path:{{id}}`")]
    BadVariable(String),
    /// This build lacks the feature `jwt`.
    #[error("key resolver `{0}` needs a build with the feature `jwt`, which this one lacks")]
    NeedsJwt(String),
    /// The parts behind `ip/` are no prefix lengths.
    #[error("key resolver `{0}` needs the bits of IPv4 (1 to 32) and of IPv6 (1 to 128), as in `ip/24/56`")]
    BadPrefixes(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Ip(IpPrefixes),
    Header(HeaderName),
    Query(Box<str>),
    Cookie(Box<str>),
    Path,
    Variable(Box<str>),
    Host,
    Method,
    Route,
    Principal,
    #[cfg(feature = "jwt")]
    Jwt(Box<str>, Option<Arc<Verifier>>),
    Composite(Vec<KeyResolver>),
}

// === impl KeyResolver ===

impl KeyResolver {
    /// The resolver that `text` names.
    ///
    /// # Errors
    /// Text that names none, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, KeyResolverError> {
        let text = text.trim();
        let kind = match text.split_once(':').map(|(kind, name)| (kind.trim(), name.trim())) {
            None => match text {
                "ip" => Kind::Ip(DEFAULT_PREFIXES),
                "path" => Kind::Path,
                "host" => Kind::Host,
                "method" => Kind::Method,
                "route" => Kind::Route,
                "principal" => Kind::Principal,
                "header" | "query" | "cookie" | "jwt" => return Err(KeyResolverError::MissingName(text.to_owned())),
                _ => match text.strip_prefix("ip/") {
                    Some(bits) => {
                        Kind::Ip(prefixes(bits).ok_or_else(|| KeyResolverError::BadPrefixes(text.to_owned()))?)
                    }
                    None => return Err(KeyResolverError::Unknown(text.to_owned())),
                },
            },
            Some(("header" | "query" | "cookie" | "path" | "jwt", "")) => {
                return Err(KeyResolverError::MissingName(text.to_owned()));
            }
            Some(("header", name)) => Kind::Header(
                HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| KeyResolverError::BadHeaderName(text.to_owned()))?,
            ),
            Some(("query", name)) => Kind::Query(name.into()),
            Some(("cookie", name)) => Kind::Cookie(name.into()),
            #[cfg(feature = "jwt")]
            Some(("jwt", claim)) => Kind::Jwt(claim.into(), None),
            #[cfg(not(feature = "jwt"))]
            Some(("jwt", _)) => return Err(KeyResolverError::NeedsJwt(text.to_owned())),
            Some(("path", variable)) => match variable.strip_prefix('{').and_then(|v| v.strip_suffix('}')) {
                Some(name) if !name.is_empty() => Kind::Variable(name.into()),
                _ => return Err(KeyResolverError::BadVariable(text.to_owned())),
            },
            Some(_) => return Err(KeyResolverError::Unknown(text.to_owned())),
        };
        Ok(Self(kind))
    }

    /// The user that an authenticating filter established: Spring's default.
    #[must_use]
    pub fn principal() -> Self {
        Self(Kind::Principal)
    }

    /// The client's address, IPv4 whole and IPv6 by /64.
    #[must_use]
    pub fn ip() -> Self {
        Self(Kind::Ip(DEFAULT_PREFIXES))
    }

    /// All of `parts` together. Two requests share a key id only if they share every part; a request that lacks one
    /// has none. A single part resolves as it does alone, and no parts resolve to nothing.
    #[must_use]
    pub fn composite(mut parts: Vec<Self>) -> Self {
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                Self(Kind::Composite(parts))
            }
        }
    }

    /// Counts addresses by the first `v4` (of 32) and `v6` (of 128) bits; larger numbers mean all of them. Does
    /// nothing to resolvers that hold no `ip`.
    #[must_use]
    pub fn with_ip_prefixes(self, v4: u8, v6: u8) -> Self {
        Self(match self.0 {
            Kind::Ip(_) => Kind::Ip(IpPrefixes { v4, v6 }),
            Kind::Composite(parts) => {
                Kind::Composite(parts.into_iter().map(|part| part.with_ip_prefixes(v4, v6)).collect())
            }
            other => other,
        })
    }

    /// Reads claims of the tokens that `verifier` lets count. Without one, `jwt:CLAIM` resolves to nothing.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn with_jwt(self, verifier: &Arc<Verifier>) -> Self {
        Self(match self.0 {
            Kind::Jwt(claim, _) => Kind::Jwt(claim, Some(Arc::clone(verifier))),
            Kind::Composite(parts) => Kind::Composite(parts.into_iter().map(|part| part.with_jwt(verifier)).collect()),
            other => other,
        })
    }

    /// Whether it reads a claim and has no verifier to believe one.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn lacks_jwt(&self) -> bool {
        match &self.0 {
            Kind::Jwt(_, verifier) => verifier.is_none(),
            Kind::Composite(parts) => parts.iter().any(Self::lacks_jwt),
            _ => false,
        }
    }

    /// Whether it reads the request's [`RequestContext`] at all.
    #[must_use]
    pub fn needs_context(&self) -> bool {
        match &self.0 {
            Kind::Ip(_) | Kind::Variable(_) | Kind::Route | Kind::Principal => true,
            Kind::Composite(parts) => parts.iter().any(Self::needs_context),
            Kind::Header(_) | Kind::Query(_) | Kind::Cookie(_) | Kind::Path | Kind::Host | Kind::Method => false,
            #[cfg(feature = "jwt")]
            Kind::Jwt(..) => false,
        }
    }

    /// Whether it reads URI template variables of the request's context.
    #[must_use]
    pub fn needs_variables(&self) -> bool {
        match &self.0 {
            Kind::Variable(_) => true,
            Kind::Composite(parts) => parts.iter().any(Self::needs_variables),
            _ => false,
        }
    }

    /// The names of the URI template variables that it reads.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        match &self.0 {
            Kind::Variable(name) => vec![name],
            Kind::Composite(parts) => parts.iter().flat_map(Self::variables).collect(),
            _ => Vec::new(),
        }
    }

    /// The key id of `request`, borrowed from it where it stands there in one piece, otherwise written to `buf`
    /// (which is emptied first). Nothing when the request lacks what this resolver reads, or has it empty.
    pub fn resolve<'a, B>(&self, request: &'a Request<B>, buf: &'a mut KeyBuf) -> Option<&'a [u8]> {
        buf.clear();
        let context = || request.extensions().get::<RequestContext>();
        let id = match &self.0 {
            Kind::Ip(prefixes) => {
                source::network(context()?.client_ip?, *prefixes, buf);
                buf.as_bytes()
            }
            Kind::Header(name) => request.headers().get(name)?.as_bytes(),
            Kind::Query(name) => source::decoded(source::query(request.uri(), name)?, true, buf),
            Kind::Cookie(name) => source::cookie(request.headers(), name)?,
            Kind::Path => request.uri().path().as_bytes(),
            Kind::Variable(name) => source::decoded(context()?.variable(name)?.as_bytes(), false, buf),
            Kind::Host => {
                source::host(request, buf);
                buf.as_bytes()
            }
            Kind::Method => request.method().as_str().as_bytes(),
            Kind::Route => context()?.route_id.as_deref()?.as_bytes(),
            Kind::Principal => context()?.principal.as_deref()?.as_bytes(),
            #[cfg(feature = "jwt")]
            Kind::Jwt(claim, verifier) => {
                verifier.as_ref()?.write_claim(request.headers(), claim, buf)?;
                buf.as_bytes()
            }
            Kind::Composite(parts) => {
                // Each part behind its length: no two lists of parts are written alike.
                let mut part_buf = KeyBuf::new();
                let mut digits = itoa::Buffer::new();
                for part in parts {
                    let id = part.resolve(request, &mut part_buf)?;
                    buf.push(digits.format(id.len()).as_bytes());
                    buf.push(b":");
                    buf.push(id);
                }
                buf.as_bytes()
            }
        };
        (!id.is_empty()).then_some(id)
    }
}

impl Default for KeyResolver {
    fn default() -> Self {
        Self::principal()
    }
}

/// `V4/V6` in bits.
fn prefixes(text: &str) -> Option<IpPrefixes> {
    let (v4, v6) = text.split_once('/')?;
    let bits = |text: &str, most: u8| text.trim().parse().ok().filter(|bits| (1..=most).contains(bits));
    Some(IpPrefixes { v4: bits(v4, 32)?, v6: bits(v6, 128)? })
}

/// A household or a server is handed a /64 of IPv6 at least, so its addresses within are free to rotate.
const DEFAULT_PREFIXES: IpPrefixes = IpPrefixes { v4: 32, v6: 64 };
