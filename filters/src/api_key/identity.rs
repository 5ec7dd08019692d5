//! Result of looking up the API key of a request.

use std::sync::Arc;
use std::time::Duration;

use http::Request;

use crate::context::RequestContext;

/// API key of a store, without the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Id under which its requests are counted. Several keys may have one id.
    pub id: Box<str>,
    /// Plan of the id.
    pub plan: Option<Arc<str>>,
    /// Ids of the routes that it may use; `None`: all.
    pub routes: Option<Arc<[Box<str>]>>,
    /// Time at which it expires, in seconds since 1970; `None`: never.
    pub expires: Option<u64>,
    /// True if it is refused although it is known.
    pub disabled: bool,
}

/// Request extension: the API key of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The request has no key.
    Absent,
    /// The request has a key that is known and neither expired nor disabled.
    Known(Arc<ApiKey>),
    /// The request has a key that does not count.
    Refused(Refusal),
}

/// Reason why a key does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request has several different keys.
    Differing,
    /// The store does not know the key.
    Unknown,
    /// The key is known and expired.
    Expired,
    /// The key is known and disabled.
    Disabled,
    /// The client's address has made too many guesses. The next one is allowed after this time.
    Limited(Duration),
    /// The store cannot be reached.
    Unavailable,
}

// === impl ApiKey ===

impl ApiKey {
    /// Returns true if the key may use the route with the id `route`. Without a route, keys for some routes are refused.
    #[must_use]
    pub fn allows(&self, route: Option<&str>) -> bool {
        self.routes.as_ref().is_none_or(|routes| route.is_some_and(|route| routes.iter().any(|name| **name == *route)))
    }

    /// Returns true if it has expired at `now`, in seconds since 1970.
    #[must_use]
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Returns the identity of a request with this key at `now`, in seconds since 1970.
    #[must_use]
    pub fn identity(self: Arc<Self>, now: u64) -> Identity {
        match &*self {
            key if key.disabled => Identity::Refused(Refusal::Disabled),
            key if key.is_expired(now) => Identity::Refused(Refusal::Expired),
            _ => Identity::Known(self),
        }
    }
}

// === impl Identity ===

impl Identity {
    /// Returns the key of `request`, if it may use the route of the request.
    pub(crate) fn key_of<B>(request: &Request<B>) -> Option<&ApiKey> {
        let Self::Known(key) = request.extensions().get()? else { return None };
        Self::is_for_route(key, request).then_some(key)
    }

    /// Returns true if `key` may use the route of `request`.
    pub(crate) fn is_for_route<B>(key: &ApiKey, request: &Request<B>) -> bool {
        key.allows(request.extensions().get::<RequestContext>().and_then(|context| context.route_id.as_deref()))
    }

    /// Returns true if `request` has several different keys.
    pub(crate) fn is_differing<B>(request: &Request<B>) -> bool {
        matches!(request.extensions().get(), Some(Self::Refused(Refusal::Differing)))
    }
}
