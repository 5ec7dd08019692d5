//! CORS policies: decisions without I/O.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Request};
use thiserror::Error;

use super::origin::{OriginPattern, is_same_host, is_same_origin, without_trailing_slash};

const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
pub(super) const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Spring's `CorsConfiguration`. Only listed values are allowed, and the methods GET and HEAD by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Origins such as `https://example.com`; `*` allows all.
    pub allowed_origins: Vec<String>,
    /// Patterns for origins with `*` and port lists: `https://*.example.com:[443,8443]`.
    pub allowed_origin_patterns: Vec<String>,
    /// Methods; `*` allows all. An empty list allows GET and HEAD.
    pub allowed_methods: Vec<String>,
    /// Request headers; `*` allows all.
    pub allowed_headers: Vec<String>,
    /// Response headers that scripts may read.
    pub exposed_headers: Vec<String>,
    /// Allows cookies and `Authorization`.
    pub allow_credentials: bool,
    /// Allows requests from public sites to a private network.
    pub allow_private_network: bool,
    /// Seconds for which a browser may cache the response to a preflight; negative disables caching.
    pub max_age_secs: Option<i64>,
}

/// An invalid policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// `*` and credentials, which browsers reject.
    #[error("credentials cannot be allowed for every origin: `*` and `allow_credentials` exclude each other")]
    CredentialsForAnyOrigin,
    /// `*` and a private network, which browsers reject.
    #[error("a private network cannot be open to every origin: `*` and `allow_private_network` exclude each other")]
    PrivateNetworkForAnyOrigin,
    /// An invalid header name.
    #[error("`{0}` is not a header name")]
    Header(String),
    /// An invalid method.
    #[error("`{0}` is not a method")]
    Method(String),
}

/// A CORS policy.
#[derive(Clone, Debug)]
pub struct Policy {
    settings: Settings,
    any_origin: bool,
    patterns: Vec<OriginPattern>,
    /// Allowed methods, and their list as a header value; `None` allows all.
    methods: Option<(Vec<Method>, HeaderValue)>,
    /// Headers of every response.
    plain: Arc<HeaderMap>,
    /// Headers of every response to an allowed origin, without the origin itself.
    allowed: HeaderMap,
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is forwarded, and its response gets these headers.
    Allowed(Arc<HeaderMap>),
    /// The request is a preflight; the response has these headers.
    Preflight(HeaderMap),
    /// The origin, the method or the headers are not allowed; the response has these headers.
    Denied(Refusal, Arc<HeaderMap>),
}

/// The part of a request that a policy refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The origin.
    Origin,
    /// The method, or the one that a preflight names.
    Method,
    /// The header fields that a preflight names.
    Headers,
}

// === impl Policy ===

impl Policy {
    /// Creates the policy of `settings`.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn new(settings: &Settings) -> Result<Self, PolicyError> {
        let any_origin = settings.allowed_origins.iter().any(|origin| origin == "*");
        if any_origin && settings.allow_credentials {
            return Err(PolicyError::CredentialsForAnyOrigin);
        }
        if any_origin && settings.allow_private_network {
            return Err(PolicyError::PrivateNetworkForAnyOrigin);
        }
        let mut plain = HeaderMap::new();
        for name in ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"] {
            plain.append(VARY, HeaderValue::from_static(name));
        }
        let mut allowed = plain.clone();
        if !settings.exposed_headers.is_empty() {
            allowed.insert(ACCESS_CONTROL_EXPOSE_HEADERS, header_names(&settings.exposed_headers)?);
        }
        if settings.allow_credentials {
            allowed.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        header_names(&settings.allowed_headers)?;
        Ok(Self {
            settings: settings.clone(),
            any_origin,
            patterns: settings.allowed_origin_patterns.iter().map(|text| OriginPattern::new(text)).collect(),
            methods: methods(&settings.allowed_methods)?,
            plain: Arc::new(plain),
            allowed,
        })
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Decides on `request`, which the client sent with `scheme`.
    #[must_use]
    pub fn evaluate<B>(&self, request: &Request<B>, scheme: &str) -> Verdict {
        let headers = request.headers();
        let Some(origin) = headers.get(ORIGIN) else { return Verdict::Allowed(Arc::clone(&self.plain)) };
        let preflight_method =
            headers.get(ACCESS_CONTROL_REQUEST_METHOD).filter(|_| request.method() == Method::OPTIONS);
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(http::uri::Authority::as_str).or(host).unwrap_or_default();
        let denied = |refusal| Verdict::Denied(refusal, Arc::clone(&self.plain));
        let same_origin = || match preflight_method {
            Some(_) => Verdict::Preflight((*self.plain).clone()),
            None => Verdict::Allowed(Arc::clone(&self.plain)),
        };
        let Ok(text) = origin.to_str() else { return denied(Refusal::Origin) };
        if is_same_origin(text, scheme, host) {
            return same_origin();
        }
        if !self.allows_origin(text) {
            return if is_same_host(text, host) { same_origin() } else { denied(Refusal::Origin) };
        }
        let method = preflight_method.map_or(request.method().as_str().as_bytes(), HeaderValue::as_bytes);
        if !self.allows_method(method) {
            return denied(Refusal::Method);
        }
        let allowed_origin = if self.any_origin { HeaderValue::from_static("*") } else { origin.clone() };
        let mut response_headers = self.allowed.clone();
        response_headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed_origin);
        if self.settings.allow_private_network
            && headers.get(REQUEST_PRIVATE_NETWORK).is_some_and(|value| value == "true")
        {
            response_headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        let Some(method) = preflight_method else { return Verdict::Allowed(Arc::new(response_headers)) };
        match self.allowed_headers(headers) {
            Ok(Some(names)) => drop(response_headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names)),
            Ok(None) => {}
            Err(refusal) => return denied(refusal),
        }
        let methods = self.methods.as_ref().map_or(method, |(_, list)| list);
        response_headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods.clone());
        if let Some(max_age) = self.settings.max_age_secs {
            response_headers.insert(ACCESS_CONTROL_MAX_AGE, max_age.into());
        }
        Verdict::Preflight(response_headers)
    }

    fn allows_origin(&self, origin: &str) -> bool {
        // `null` is a valid origin; other values must be URIs.
        let origin = without_trailing_slash(origin);
        let is_allowed = |allowed: &String| without_trailing_slash(allowed).eq_ignore_ascii_case(origin);
        let is_origin = origin == "null" || origin.split_once("://").is_some_and(|(_, host)| !host.is_empty());
        is_origin
            && (self.any_origin
                || self.settings.allowed_origins.iter().any(is_allowed)
                || self.patterns.iter().any(|pattern| pattern.matches(origin)))
    }

    fn allows_method(&self, method: &[u8]) -> bool {
        self.methods.as_ref().is_none_or(|(methods, _)| methods.iter().any(|one| one.as_str().as_bytes() == method))
    }

    /// Returns those headers that a preflight requests and the policy allows; `None` if it requests none. If only some are
    /// allowed, the browser blocks the request.
    ///
    /// # Errors
    /// The preflight requests headers, and none is allowed.
    fn allowed_headers(&self, preflight: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        let values = preflight.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|value| value.to_str().ok());
        let names = values.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty());
        let requested: Vec<_> = names.collect();
        if requested.is_empty() {
            return Ok(None);
        }
        let is_allowed = |name: &&str| {
            self.settings.allowed_headers.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(name))
        };
        let allowed: Vec<_> = requested.into_iter().filter(is_allowed).collect();
        if allowed.is_empty() {
            return Err(Refusal::Headers);
        }
        HeaderValue::try_from(allowed.join(", ")).map(Some).map_err(|_| Refusal::Headers)
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
    // Methods are tokens, so their list is a valid header value.
    let list = HeaderValue::try_from(list.join(",")).map_err(|_| PolicyError::Method(names.join(",")))?;
    Ok(Some((methods, list)))
}

/// Joins the names to one value; `*` is a valid name here.
fn header_names(names: &[String]) -> Result<HeaderValue, PolicyError> {
    for name in names.iter().filter(|name| *name != "*") {
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| PolicyError::Header(name.to_owned()))?;
    }
    HeaderValue::try_from(names.join(", ")).map_err(|_| PolicyError::Header(names.join(", ")))
}
