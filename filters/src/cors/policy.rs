//! Who may ask from where, and what a browser is told of it: pure decisions.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Request};
use thiserror::Error;

use super::origin::{OriginPattern, is_same, is_same_host, without_slash};

const ASKS_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Spring's `CorsConfiguration`. Nothing is allowed that is not named, but for the methods GET and HEAD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Origins such as `https://example.com`; `*` for every one.
    pub allowed_origins: Vec<String>,
    /// Origins with `*` in them, and lists of ports: `https://*.example.com:[443,8443]`.
    pub allowed_origin_patterns: Vec<String>,
    /// Methods; `*` for every one. Empty: GET and HEAD.
    pub allowed_methods: Vec<String>,
    /// Headers that a request may have; `*` for every one.
    pub allowed_headers: Vec<String>,
    /// Headers of answers that scripts may read.
    pub exposed_headers: Vec<String>,
    /// Whether cookies and `Authorization` may go along.
    pub allow_credentials: bool,
    /// Whether public sites may ask a private network's.
    pub allow_private_network: bool,
    /// Seconds for which a browser may remember the answer to a preflight; negative: not at all.
    pub max_age_secs: Option<i64>,
}

/// Why there can be no such policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Browsers would refuse it.
    #[error("credentials cannot be allowed to every origin: `*` and `allow-credentials` exclude each other")]
    CredentialsForEveryone,
    /// Browsers would refuse it.
    #[error("a private network cannot be open to every origin: `*` and `allow-private-network` exclude each other")]
    PrivateNetworkForEveryone,
    /// What is no header's name.
    #[error("`{0}` is not a header's name")]
    Header(String),
    /// What is no method.
    #[error("`{0}` is not a method")]
    Method(String),
    /// What is no pattern.
    #[error("`{0}` is not a pattern of origins")]
    Pattern(String),
}

/// Who may ask from where.
#[derive(Clone, Debug)]
pub struct Policy {
    any_origin: bool,
    origins: Vec<String>,
    patterns: Vec<OriginPattern>,
    /// `None`: every one.
    methods: Option<(Vec<Method>, HeaderValue)>,
    /// `None`: every one.
    headers: Option<Vec<String>>,
    private_network: bool,
    max_age: Option<HeaderValue>,
    /// What every answer says.
    plain: Arc<HeaderMap>,
    /// What every answer to an origin that is allowed says besides its name.
    granted: HeaderMap,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, and its answer gets these headers.
    Passes(Arc<HeaderMap>),
    /// It is a preflight, answered with these headers.
    Preflight(HeaderMap),
    /// It is refused, with these headers: not from there, not with that method, or not with those headers.
    Refused(Arc<HeaderMap>),
}

// === impl Policy ===

impl Policy {
    /// The policy of `settings`.
    ///
    /// # Errors
    /// Credentials or a private network for every origin; names and patterns that are none.
    pub fn new(settings: &Settings) -> Result<Self, PolicyError> {
        let everyone = settings.allowed_origins.iter().any(|origin| origin == "*");
        if everyone && settings.allow_credentials {
            return Err(PolicyError::CredentialsForEveryone);
        }
        if everyone && settings.allow_private_network {
            return Err(PolicyError::PrivateNetworkForEveryone);
        }
        let pattern = |text: &String| OriginPattern::parse(text).ok_or_else(|| PolicyError::Pattern(text.to_owned()));
        let mut plain = HeaderMap::new();
        for name in ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"] {
            plain.append(VARY, HeaderValue::from_static(name));
        }
        let mut granted = plain.clone();
        if !settings.exposed_headers.is_empty() {
            granted.insert(ACCESS_CONTROL_EXPOSE_HEADERS, header_names(&settings.exposed_headers)?);
        }
        if settings.allow_credentials {
            granted.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        header_names(&settings.allowed_headers)?;
        Ok(Self {
            any_origin: everyone,
            origins: settings.allowed_origins.iter().map(|origin| without_slash(origin).to_owned()).collect(),
            patterns: settings.allowed_origin_patterns.iter().map(pattern).collect::<Result<_, _>>()?,
            methods: methods(&settings.allowed_methods)?,
            headers: (!settings.allowed_headers.iter().any(|name| name == "*"))
                .then(|| settings.allowed_headers.clone()),
            private_network: settings.allow_private_network,
            max_age: settings.max_age_secs.map(HeaderValue::from),
            plain: Arc::new(plain),
            granted,
        })
    }

    /// What becomes of `request`, which came by `scheme`.
    #[must_use]
    pub fn judge<B>(&self, request: &Request<B>, scheme: &str) -> Verdict {
        let headers = request.headers();
        let Some(origin) = headers.get(ORIGIN) else { return Verdict::Passes(Arc::clone(&self.plain)) };
        let asked_method = headers.get(ACCESS_CONTROL_REQUEST_METHOD).filter(|_| request.method() == Method::OPTIONS);
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(http::uri::Authority::as_str).or(host).unwrap_or_default();
        let refused = || Verdict::Refused(Arc::clone(&self.plain));
        let as_it_is = || match asked_method {
            Some(_) => Verdict::Preflight((*self.plain).clone()),
            None => Verdict::Passes(Arc::clone(&self.plain)),
        };
        let Ok(text) = origin.to_str() else { return refused() };
        if is_same(text, scheme, host) {
            return as_it_is();
        }
        if !self.allows_origin(text) {
            return if is_same_host(text, host) { as_it_is() } else { refused() };
        }
        let allowed = if self.any_origin { HeaderValue::from_static("*") } else { origin.clone() };
        let mut grant = self.granted.clone();
        grant.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if self.private_network && headers.get(ASKS_PRIVATE_NETWORK).is_some_and(|asks| asks == "true") {
            grant.insert(ALLOWS_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        match asked_method {
            None if self.allows_method(request.method().as_str().as_bytes()) => Verdict::Passes(Arc::new(grant)),
            Some(method) if self.allows_method(method.as_bytes()) => match self.allowed_headers(headers) {
                Some(names) => {
                    if let Some(names) = names {
                        grant.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
                    }
                    let methods = self.methods.as_ref().map_or(method, |(_, list)| list);
                    grant.insert(ACCESS_CONTROL_ALLOW_METHODS, methods.clone());
                    if let Some(max_age) = &self.max_age {
                        grant.insert(ACCESS_CONTROL_MAX_AGE, max_age.clone());
                    }
                    Verdict::Preflight(grant)
                }
                None => refused(),
            },
            _ => refused(),
        }
    }

    fn allows_origin(&self, origin: &str) -> bool {
        // `null` is an origin of its own; what is neither that nor a URI is none.
        let origin = without_slash(origin);
        let is_origin = origin == "null" || origin.split_once("://").is_some_and(|(_, host)| !host.is_empty());
        is_origin
            && (self.any_origin
                || self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
                || self.patterns.iter().any(|pattern| pattern.matches(origin)))
    }

    fn allows_method(&self, method: &[u8]) -> bool {
        self.methods.as_ref().is_none_or(|(methods, _)| methods.iter().any(|one| one.as_str().as_bytes() == method))
    }

    /// Those of the headers that a preflight asks for that are allowed; `None` when it asks for some, and none is. The
    /// browser sees for itself which are missing.
    fn allowed_headers(&self, asked: &HeaderMap) -> Option<Option<HeaderValue>> {
        let values = asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|value| value.to_str().ok());
        let names = values.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<_> = names.collect();
        if names.is_empty() {
            return Some(None);
        }
        let is_allowed = |name: &&str| {
            self.headers.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one.eq_ignore_ascii_case(name)))
        };
        let allowed: Vec<_> = names.into_iter().filter(is_allowed).collect();
        if allowed.is_empty() { None } else { HeaderValue::try_from(allowed.join(", ")).ok().map(Some) }
    }
}

type Methods = Option<(Vec<Method>, HeaderValue)>;

fn methods(names: &[String]) -> Result<Methods, PolicyError> {
    if names.iter().any(|name| name == "*") {
        return Ok(None);
    }
    let parse = |name: &String| Method::from_bytes(name.as_bytes()).map_err(|_| PolicyError::Method(name.to_owned()));
    let mut methods = names.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if methods.is_empty() {
        methods = vec![Method::GET, Method::HEAD];
    }
    let list: Vec<&str> = methods.iter().map(Method::as_str).collect();
    // Methods are tokens, so their list is a header's value.
    let list = HeaderValue::try_from(list.join(",")).map_err(|_| PolicyError::Method(names.join(",")))?;
    Ok(Some((methods, list)))
}

/// The names as one value; `*` is one of them here.
fn header_names(names: &[String]) -> Result<HeaderValue, PolicyError> {
    for name in names.iter().filter(|name| *name != "*") {
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| PolicyError::Header(name.to_owned()))?;
    }
    HeaderValue::try_from(names.join(", ")).map_err(|_| PolicyError::Header(names.join(", ")))
}
