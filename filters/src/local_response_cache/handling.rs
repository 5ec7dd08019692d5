//! Handling of upstream responses: stores, revalidates or invalidates, and says so in `Cache-Status`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Body;
use tokio::time::Instant;

use super::body::{PendingResponse, StoringBody};
use super::cache::{Resource, ResponseCache, StoredResponse};
use super::cache_control::set_lifetime;
use super::key::{self, Key};
use super::reuse::ReuseUntil;
use super::{CacheOutcome, Shared, policy};
use crate::context::{FromOtherRoute, LocalReply, ReceivedPath};
use crate::cors::PolicyHeadersAdded;
use crate::response_filter::ResponseChange;

/// Field that says how the cache handled a response (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Handles an upstream's response.
#[derive(Debug)]
pub struct HandleResponse(pub(super) Handling, pub(super) Option<CacheStatus>);

/// The handling of an upstream's response.
#[derive(Debug)]
pub(super) enum Handling {
    /// Forward it only.
    Forward,
    /// If the request succeeded, invalidate the stored responses of the resource.
    Invalidate(Arc<ResponseCache>, Key),
    /// Store a copy. The second value is the stale response that the request revalidates.
    Store(Exchange, Option<Arc<StoredResponse>>),
}

impl<R> ResponseChange<R> for HandleResponse
where
    R: Body<Data = Bytes> + From<Bytes>,
{
    type Body = StoringBody<R>;

    fn change(self, response: Response<R>) -> Response<StoringBody<R>> {
        let Self(handling, cache_status) = self;
        let (received, is_local) = (response.status(), LocalReply::marks(&response));
        let mut response = handling.apply(response);
        if let Some(status) = cache_status.filter(|_| !is_local) {
            let is_stored = response.body().is_storing();
            status.add(&mut response, received, is_stored);
        }
        response
    }
}

impl Handling {
    fn apply<R>(self, response: Response<R>) -> Response<StoringBody<R>>
    where
        R: Body<Data = Bytes> + From<Bytes>,
    {
        let status = response.status();
        match self {
            Self::Forward => response.map(StoringBody::plain),
            Self::Invalidate(cache, resource) => {
                if status.is_success() || status.is_redirection() {
                    cache.invalidate(&resource);
                }
                response.map(StoringBody::plain)
            }
            Self::Store(exchange, stale) => match stale.filter(|_| status == StatusCode::NOT_MODIFIED) {
                Some(stale) => exchange.revalidated(&stale, &response),
                None => exchange.store(response),
            },
        }
    }
}

/// A request, once its response may be stored.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) shared: Arc<Shared>,
    pub(super) resource: Key,
    /// The spelling of the path.
    pub(super) path: Option<ReceivedPath>,
    pub(super) request_headers: HeaderMap,
    /// The entry of the resource before the request was forwarded.
    pub(super) registered: Arc<Resource>,
}

impl Exchange {
    /// Returns the key of the response.
    fn key(&self, vary: &[HeaderName]) -> Key {
        key::response(&self.resource, self.path.as_ref(), &self.request_headers, vary)
    }

    /// Returns the lifetime of the fields `headers` with `status`. `from` is the response of the upstream.
    fn lifetime<R>(&self, status: StatusCode, headers: &HeaderMap, from: &Response<R>) -> Option<Duration> {
        let extensions = from.extensions();
        if LocalReply::marks(from) || extensions.get::<FromOtherRoute>().is_some() {
            return None;
        }
        let (time_to_live, now) = (self.shared.settings.time_to_live, SystemTime::now());
        let bound = extensions.get::<ReuseUntil>().map(|ReuseUntil(end)| end.duration_since(now).unwrap_or_default());
        let lifetime = policy::lifetime(&self.request_headers, status, headers, time_to_live, now)?;
        Some(bound.map_or(lifetime, |bound| bound.min(lifetime)))
    }

    /// Forwards the upstream's response, and stores a copy if that is allowed.
    fn store<R: Body<Data = Bytes>>(self, mut response: Response<R>) -> Response<StoringBody<R>> {
        let cache = &self.shared.cache;
        cache.stats().observe(CacheOutcome::Miss);
        let lifetime = self.lifetime(response.status(), response.headers(), &response);
        let Some(lifetime) = lifetime else { return response.map(StoringBody::plain) };
        let Some(resource) = cache.update_vary(&self.resource, &self.registered, response.headers()) else {
            return response.map(StoringBody::plain);
        };
        let headers = response.headers().clone();
        set_lifetime(response.headers_mut(), lifetime);
        let stored = StoredResponse {
            generation: resource.generation,
            status: response.status(),
            has_policy_headers: response.extensions().get::<PolicyHeadersAdded>().is_some(),
            body: Bytes::new(),
            lifetime,
            since: Instant::now(),
            headers,
        };
        let content_length =
            stored.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let min_bytes = content_length.unwrap_or_else(|| response.body().size_hint().lower());
        if stored.weight().saturating_add(min_bytes) > cache.max_response_bytes() {
            return response.map(StoringBody::plain);
        }
        let key = self.key(&resource.vary);
        let pending = PendingResponse {
            cache: Arc::clone(cache),
            resource: self.resource,
            key,
            response: stored,
            content_length,
            collected: BytesMut::new(),
        };
        response.map(|body| StoringBody::storing(body, pending))
    }

    /// Responds with the stale response, which the upstream has confirmed, and stores it again.
    fn revalidated<R: From<Bytes>>(
        self,
        stale: &StoredResponse,
        not_modified: &Response<R>,
    ) -> Response<StoringBody<R>> {
        let cache = &self.shared.cache;
        cache.stats().observe(CacheOutcome::Revalidated);
        let headers = policy::update_headers(&stale.headers, not_modified.headers());
        let (now, lifetime) = (Instant::now(), self.lifetime(stale.status, &headers, not_modified));
        let stored = StoredResponse {
            headers,
            lifetime: lifetime.unwrap_or_default(),
            since: now,
            has_policy_headers: stale.has_policy_headers
                || not_modified.extensions().get::<PolicyHeadersAdded>().is_some(),
            ..stale.clone()
        };
        let response = stored.response(&self.request_headers, false, now);
        match lifetime.and_then(|_| cache.update_vary(&self.resource, &self.registered, &stored.headers)) {
            Some(resource) => {
                let key = self.key(&resource.vary);
                cache.insert(&self.resource, key, stored);
            }
            // It must not be stored any more.
            None => cache.invalidate(&self.resource),
        }
        response.map(StoringBody::plain)
    }
}

/// Facts about a forwarded request, for `Cache-Status`.
#[derive(Debug)]
pub(super) struct CacheStatus {
    /// Name of the cache.
    pub(super) name: Arc<str>,
    /// Reason why the request was forwarded.
    pub(super) why: &'static str,
}

impl CacheStatus {
    /// Adds the field to a response of the upstream, which sent `received`. `is_stored` is true if the cache stores it.
    fn add<R>(&self, response: &mut Response<R>, received: StatusCode, is_stored: bool) {
        let Self { name, why } = self;
        let is_revalidated = received == StatusCode::NOT_MODIFIED && *why == "stale";
        let status = if is_revalidated { "; fwd-status=304" } else { "" };
        let stored = if is_stored { "; stored" } else { "" };
        append_status(response, format!("{name}; fwd={why}{status}{stored}"));
    }
}

/// Appends a value of `Cache-Status`: each cache on the way adds one behind those before it.
pub(super) fn append_status<R>(response: &mut Response<R>, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().append(CACHE_STATUS, value);
    }
}
