//! The key resolver and its kinds.

use std::borrow::Cow;
use std::sync::{Arc, Once};

use http::{HeaderName, Request};

use super::buffer::KeyBuf;
use super::credentials;
use super::extract::{self, IpPrefixes};
use super::function::{AddressFn, Key, KeyFn, RequestHead, UserFn};
use crate::api_key::{Identity, KeyPart, Settings};
use crate::client_address;
use crate::client_certificate::CertificatePart;
use crate::context::RequestContext;
use crate::cookie;
#[cfg(feature = "jwt")]
use crate::jwt::Verifier;
use crate::query;

/// Resolver of the key id under which a request is counted. See the [module](super) for the kinds and an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyResolver(pub(super) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ip(IpPrefixes),
    IpFrom(AddressFn, IpPrefixes),
    Header(HeaderName),
    /// Header that holds a scheme and credentials.
    Credentials(HeaderName),
    Query(Box<str>),
    Cookie(Box<str>),
    Path,
    Variable(Box<str>),
    Host,
    Method,
    Route,
    Principal,
    Certificate(CertificatePart),
    /// Claim of a verified token; without a claim, one id for all valid tokens.
    #[cfg(feature = "jwt")]
    Jwt(Option<Box<str>>, Option<Arc<Verifier>>),
    /// Part of a verified API key, and the places of keys.
    ApiKey(KeyPart, Option<Arc<Settings>>),
    Function(KeyFn),
    Composite(Vec<KeyResolver>),
    OrShared(Box<KeyResolver>),
    OrPreflight(Box<KeyResolver>),
}

// === impl KeyResolver ===

impl KeyResolver {
    /// Resolves to the user that an authenticating filter established: Spring's default.
    #[must_use]
    pub fn principal() -> Self {
        Self(Kind::Principal)
    }

    /// Resolves to the key that `key` returns. `None` and empty bytes are no key id.
    ///
    /// As with `header:NAME`, a field that occurs twice with different values has none, and limiters refuse the request: see
    /// [`Fields`](super::Fields).
    ///
    /// ```
    /// use tollgate_filters::key_resolver::{Key, KeyResolver};
    ///
    /// let user = KeyResolver::from_fn(|head| head.headers.get("x-api-key"));
    /// let tenant = KeyResolver::from_fn(|head| head.uri.path().split('/').nth(1).map(Key::from));
    /// let both = KeyResolver::from_fn(|head| Some(format!("{} {}", head.method, head.uri.path()).into()));
    /// ```
    #[must_use]
    pub fn from_fn<F>(key: F) -> Self
    where
        F: Fn(RequestHead<'_>) -> Option<Key<'_>> + Send + Sync + 'static,
    {
        Self(Kind::Function(UserFn(Arc::new(key))))
    }

    /// Resolves each request with a valid token to one id, whichever claims the token has: see [`with_jwt`](Self::with_jwt).
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn any_token() -> Self {
        Self(Kind::Jwt(None, None))
    }

    /// Resolves to the list of the key ids of `parts`.
    ///
    /// Two requests share a key id only if they share every part. A request that lacks one part has no key id. A single
    /// part resolves as it does alone; an empty list never resolves.
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

    /// Resolves requests without a key id to one shared id, which is empty and thus differs from every other id.
    /// [Ambiguous](Self::is_ambiguous) requests still have none.
    #[must_use]
    pub fn or_shared(self) -> Self {
        Self(Kind::OrShared(Box::new(self)))
    }

    /// Resolves preflights without a key id to an id of their client's address, as [`client_ip`](Self::client_ip) has it. Browsers send
    /// them without header fields of the application, cookies, tokens and a body. Resolvers that read no header field stay as
    /// they are.
    #[must_use]
    pub fn or_preflight(self) -> Self {
        if self.headers().is_empty() { self } else { Self(Kind::OrPreflight(Box::new(self))) }
    }

    /// Returns true if preflights without a key id get one by [`or_preflight`](Self::or_preflight).
    #[must_use]
    pub fn counts_preflights(&self) -> bool {
        match &self.0 {
            Kind::OrShared(inner) => inner.counts_preflights(),
            kind => matches!(kind, Kind::OrPreflight(_)),
        }
    }

    /// Reads claims of tokens that `verifier` accepts. Without a verifier, `jwt:CLAIM` never resolves.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn with_jwt(mut self, verifier: &Arc<Verifier>) -> Self {
        self.change_parts(&|part| {
            if let Kind::Jwt(_, current) = part {
                *current = Some(Arc::clone(verifier));
            }
        });
        self
    }

    /// Returns the key id of `request`: borrowed from the request if it is contiguous there, otherwise written to `buf`,
    /// which is cleared first. Returns `None` if the value that this resolver reads is missing, empty or
    /// [ambiguous](Self::is_ambiguous).
    pub fn resolve<'a, B>(&self, request: &'a Request<B>, buf: &'a mut KeyBuf) -> Option<&'a [u8]> {
        let kind = match &self.0 {
            Kind::OrPreflight(resolver) if !extract::is_preflight(request) || resolver.finds_token_field(request) => {
                &resolver.0
            }
            kind => kind,
        };
        buf.clear();
        let context =
            || request.extensions().get::<RequestContext>().or_else(|| note_missing(&CONTEXT, CONTEXT_ADVICE));
        let id = match kind {
            Kind::Ip(prefixes) => {
                extract::network(client_address::of_extensions(request.extensions())?, *prefixes, buf);
                buf.as_bytes()
            }
            Kind::IpFrom(address, prefixes) => {
                extract::network((address.0)(request.extensions(), request.headers())?, *prefixes, buf);
                buf.as_bytes()
            }
            Kind::Header(name) => extract::header(request.headers(), name).one()?,
            Kind::Credentials(name) => credentials::normal(extract::header(request.headers(), name).one()?, buf),
            Kind::Query(name) => extract::decoded(query::value(request.uri(), name).one()?, true, buf),
            Kind::Cookie(name) => cookie::value(request.headers(), name).one()?,
            Kind::Path => extract::path(request.uri().path(), buf),
            Kind::Variable(name) => extract::decoded(context()?.variable(name)?.as_bytes(), false, buf),
            Kind::Host => {
                extract::host(request, buf);
                buf.as_bytes()
            }
            Kind::Method => request.method().as_str().as_bytes(),
            Kind::Route => context()?.route_id.as_deref()?.as_bytes(),
            Kind::Principal => context()?.principal.as_deref()?.as_bytes(),
            Kind::Certificate(part) => extract::certificate(request.extensions(), *part).one()?,
            #[cfg(feature = "jwt")]
            Kind::Jwt(None, verifier) => verifier.as_ref()?.accepts(request.headers()).then_some(&b"token"[..])?,
            #[cfg(feature = "jwt")]
            Kind::Jwt(Some(claim), verifier) => {
                verifier.as_ref()?.write_claim(request.headers(), claim, buf)?;
                buf.as_bytes()
            }
            Kind::ApiKey(part, _) => {
                request.extensions().get::<Identity>().or_else(|| note_missing(&IDENTITY, IDENTITY_ADVICE))?;
                let key = Identity::key_of(request)?;
                match part {
                    KeyPart::Id => key.id.as_bytes(),
                    KeyPart::Plan => key.plan.as_deref()?.as_bytes(),
                }
            }
            Kind::Function(function) => {
                function.write_key(request, buf)?;
                buf.as_bytes()
            }
            Kind::Composite(parts) => {
                write_composite(parts, request, buf)?;
                buf.as_bytes()
            }
            Kind::OrShared(resolver) => {
                let id = resolver.resolve(request, buf);
                return id.or_else(|| (!resolver.is_ambiguous(request)).then_some(&b""[..]));
            }
            Kind::OrPreflight(resolver) if resolver.has_value(request) => return resolver.resolve(request, buf),
            Kind::OrPreflight(_) => {
                extract::write_preflight_id(client_address::of_extensions(request.extensions())?, buf);
                buf.as_bytes()
            }
        };
        (!id.is_empty()).then_some(id)
    }

    /// Returns the form in which this resolver returns the key id `id`: `Bearer x` for `bearer  x` in `Authorization`. Ids of
    /// lists and tables must have this form.
    #[must_use]
    pub fn normal_id<'i>(&self, id: &'i [u8]) -> Cow<'i, [u8]> {
        match &self.0 {
            Kind::Credentials(_) => credentials::normal_id(id),
            Kind::Certificate(part) => part.normal(id),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => resolver.normal_id(id),
            #[cfg(feature = "jwt")]
            Kind::Jwt(..) => Cow::Borrowed(id),
            Kind::Ip(_) | Kind::IpFrom(..) | Kind::Header(_) | Kind::Query(_) | Kind::Cookie(_) | Kind::Path => {
                Cow::Borrowed(id)
            }
            Kind::Variable(_) | Kind::Host | Kind::Method | Kind::Route | Kind::Principal => Cow::Borrowed(id),
            Kind::ApiKey(..) | Kind::Function(_) => Cow::Borrowed(id),
            // The parts of a list are separate in it, each in its normal form.
            Kind::Composite(_) => Cow::Borrowed(id),
        }
    }

    /// Returns true if `request` has a key id, or several.
    fn has_value<B>(&self, request: &Request<B>) -> bool {
        self.resolve(request, &mut KeyBuf::new()).is_some() || self.is_ambiguous(request)
    }

    /// Applies `change` to each part.
    pub(super) fn change_parts(&mut self, change: &dyn Fn(&mut Kind)) {
        match &mut self.0 {
            Kind::Composite(parts) => parts.iter_mut().for_each(|part| part.change_parts(change)),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => resolver.change_parts(change),
            part => change(part),
        }
    }
}

impl Default for KeyResolver {
    fn default() -> Self {
        Self::principal()
    }
}

static CONTEXT: Once = Once::new();
const CONTEXT_ADVICE: &str =
    "request without a RequestContext, from which keys are read: insert one before the limiter";
static IDENTITY: Once = Once::new();
const IDENTITY_ADVICE: &str =
    "request without an identity, from which keys are read: put an IdentifyLayer before the limiter";

/// Logs `advice` for the first request without an extension that a layer or server before the limiter inserts.
#[cold]
fn note_missing<T>(logged: &Once, advice: &str) -> Option<T> {
    logged.call_once(|| tracing::warn!("{advice}"));
    None
}

/// Writes the key id of each part after its length, so that different lists never give the same bytes.
fn write_composite<B>(parts: &[KeyResolver], request: &Request<B>, out: &mut KeyBuf) -> Option<()> {
    let mut part_buf = KeyBuf::new();
    let mut digits = itoa::Buffer::new();
    for part in parts {
        let id = part.resolve(request, &mut part_buf)?;
        out.push(digits.format(id.len()).as_bytes());
        out.push(b":");
        out.push(id);
    }
    Some(())
}
