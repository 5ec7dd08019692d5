//! Layer that refuses requests without a valid key, and tells upstreams the id.

use std::sync::{Arc, LazyLock};

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, Response, StatusCode};

use crate::api_key::{Identity, KeyPart, Refusal, Settings};
use crate::key_resolver::{KeyResolver, is_preflight};
use crate::refusal_body::ReplyBody;
use crate::reply::Reply;
use crate::request_filter::{RequestFilter, RequestFilterLayer};

/// Refuses requests without a valid key. See the [module](super).
pub type ApiKeyLayer = RequestFilterLayer<Arc<FilterSettings>>;

/// Settings of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSettings {
    keys: Arc<Settings>,
    /// Refuses requests without a key (default: true). An unknown key is refused in any case.
    pub required: bool,
    /// Forwards the key itself (default: false).
    pub forward: bool,
    resolver: KeyResolver,
}

/// Refusals of the filter: one set for the process, since they depend on no route.
static REPLIES: LazyLock<Replies> = LazyLock::new(Replies::new);

struct Replies {
    missing: Reply,
    differing: Reply,
    unknown: Reply,
    expired: Reply,
    disabled: Reply,
    other_route: Reply,
    limited: Reply,
    unavailable: Reply,
}

// === impl FilterSettings ===

impl FilterSettings {
    /// Requires a key at the places of `keys`, and does not forward it. If `forwards_preflights`, those of browsers need no
    /// key.
    #[must_use]
    pub fn new(keys: Arc<Settings>, forwards_preflights: bool) -> Self {
        let resolver = KeyResolver::api_key(KeyPart::Id, Arc::clone(&keys));
        let resolver = if forwards_preflights { resolver.or_preflight() } else { resolver };
        Self { keys, resolver, required: true, forward: false }
    }

    /// Returns the resolver of the id.
    #[must_use]
    pub fn resolver(&self) -> &KeyResolver {
        &self.resolver
    }

    /// Returns the places of keys.
    #[must_use]
    pub fn keys(&self) -> &Arc<Settings> {
        &self.keys
    }

    /// Returns true if the filter forwards `request`.
    pub fn admits<B>(&self, request: &Request<B>) -> bool {
        self.refusal(request).is_none()
    }

    fn refusal<B>(&self, request: &Request<B>) -> Option<&'static Reply> {
        let replies = &*REPLIES;
        match request.extensions().get::<Identity>() {
            Some(Identity::Known(key)) => (!Identity::is_for_route(key, request)).then_some(&replies.other_route),
            Some(Identity::Refused(refusal)) => Some(replies.of(*refusal)),
            Some(Identity::Absent) | None => {
                let passes = !self.required || (self.resolver.counts_preflights() && is_preflight(request));
                (!passes).then_some(&replies.missing)
            }
        }
    }

    /// Adds header fields to a refusal of `request`.
    fn complete<B, R>(&self, request: &Request<B>, response: &mut Response<R>) {
        if response.status() == StatusCode::UNAUTHORIZED {
            // A 401 must name a scheme (RFC 9110 §15.5.2).
            let challenge = match (self.keys.reads_bearer(), self.keys.has_field(request)) {
                (true, true) => "Bearer error=\"invalid_token\"",
                (true, false) => "Bearer",
                (false, _) => "ApiKey",
            };
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(Identity::Refused(Refusal::Limited(wait))) = request.extensions().get() {
            // At least the wait, in whole seconds.
            let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
    }

    /// Prepares a request for the upstream.
    fn prepare<B>(&self, request: &mut Request<B>) {
        request.headers_mut().remove(&self.keys.id_header);
        let Some(Identity::Known(key)) = request.extensions().get::<Identity>() else { return };
        // Ids of entries are visible ASCII.
        if let Ok(id) = HeaderValue::from_str(&key.id) {
            request.headers_mut().insert(&self.keys.id_header, id);
        }
        if !self.forward {
            self.keys.remove_keys(request);
        }
    }
}

impl<R: ReplyBody> RequestFilter<Response<R>> for Arc<FilterSettings> {
    fn filter<B>(&self, request: &mut Request<B>) -> Option<Response<R>> {
        let Some(reply) = self.refusal(request) else {
            self.prepare(request);
            return None;
        };
        let mut response = reply.to_response(request);
        self.complete(request, &mut response);
        Some(response)
    }
}

// === impl Replies ===

impl Replies {
    fn new() -> Self {
        let refused = StatusCode::UNAUTHORIZED;
        let unavailable = "API keys cannot be verified now";
        Self {
            missing: Reply::detailed(refused, "api-key-missing", "an API key is required"),
            differing: Reply::detailed(refused, "api-key-differing", "the request has different API keys"),
            unknown: Reply::detailed(refused, "api-key-unknown", "the API key is not known"),
            expired: Reply::detailed(refused, "api-key-expired", "the API key has expired"),
            disabled: Reply::detailed(refused, "api-key-disabled", "the API key is disabled"),
            other_route: Reply::detailed(StatusCode::FORBIDDEN, "api-key-route", "the API key is for other routes"),
            limited: Reply::detailed(StatusCode::TOO_MANY_REQUESTS, "api-key-guesses", "too many unknown API keys"),
            unavailable: Reply::detailed(StatusCode::SERVICE_UNAVAILABLE, "api-key-unavailable", unavailable),
        }
    }

    fn of(&self, refusal: Refusal) -> &Reply {
        match refusal {
            Refusal::Differing => &self.differing,
            Refusal::Unknown => &self.unknown,
            Refusal::Expired => &self.expired,
            Refusal::Disabled => &self.disabled,
            Refusal::Limited(_) => &self.limited,
            Refusal::Unavailable => &self.unavailable,
        }
    }
}
