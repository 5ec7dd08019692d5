//! State that all services of one layer share.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};

use crate::context::Degraded;
use crate::headers::{DEGRADED, number_value, prepend, retry_after_secs};
use crate::key_resolver::{KeyBuf, KeyResolver};
use crate::limiter_builder::{LimiterSettings, SharedSettings};
use crate::refusal::{ErrorFormat, Refusal};
use crate::reply::{ErrorBody, Reply};
use tollgate_limiter::concurrency::{Acquired, Acquisition, Concurrency, SlotStore};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

/// Settings of a limiter. The defaults are those of the rate limiter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The key resolver.
    pub key_resolver: KeyResolver,
    /// The status of a denial (`status-code`).
    pub status: StatusCode,
    /// Refuses requests without a key id (`deny-empty-key`). Otherwise they pass without a limit.
    pub deny_empty_key: bool,
    /// The status of that refusal (`empty-key-status`).
    pub empty_key_status: StatusCode,
    /// The headers.
    pub headers: HeaderNames,
    /// The body of refusals.
    pub error_body: ErrorBody,
    /// The format of refusals for clients of RPC protocols.
    pub error_format: ErrorFormat,
}

/// Names of the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Enables these headers. `Retry-After` is always sent.
    pub include: bool,
    /// Slots per key.
    pub limit: HeaderName,
    /// Free slots after the decision, `-1` if no store counted the request.
    pub remaining: HeaderName,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_resolver: KeyResolver::default(),
            status: StatusCode::TOO_MANY_REQUESTS,
            deny_empty_key: true,
            empty_key_status: StatusCode::FORBIDDEN,
            headers: HeaderNames::default(),
            error_body: ErrorBody::default(),
            error_format: ErrorFormat::default(),
        }
    }
}

impl LimiterSettings for Settings {
    type Store = dyn SlotStore;
    type OnVerdict = OnVerdict;

    fn shared(&mut self) -> SharedSettings<'_> {
        let Self { key_resolver, deny_empty_key, status, error_body, error_format, .. } = self;
        SharedSettings { key_resolver, deny_empty_key, status, error_body, error_format }
    }
}

// === impl HeaderNames ===

impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            include: true,
            limit: HeaderName::from_static("x-concurrency-limit"),
            remaining: HeaderName::from_static("x-concurrency-remaining"),
        }
    }
}

/// Verdict on one request. Requests without a key id have none.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct VerdictEvent<'a> {
    /// Name of the limiter.
    pub name: &'a str,
    /// Key id; `None` if the request, which waited for the store, has lost it.
    pub key: Option<&'a [u8]>,
    /// The verdict.
    pub verdict: &'a Verdict,
}

/// Hook for verdicts, called before the request is forwarded.
pub(super) type OnVerdict = dyn Fn(&VerdictEvent<'_>) + Send + Sync;

const TITLE: &str = "Request cannot be satisfied as too many requests are in flight";

/// Concurrency limiter without its inner service.
#[derive(Clone)]
pub(super) struct Limiter {
    scope: Arc<str>,
    limit: HeaderValue,
    key_resolver: KeyResolver,
    headers: HeaderNames,
    store: Arc<dyn SlotStore>,
    denied: Reply,
    unavailable: Reply,
    /// `None` if a request without a key id passes.
    empty_key: Option<Reply>,
    /// Refusal of a request with several key ids, which never passes.
    ambiguous_key: Reply,
    error_format: ErrorFormat,
    pub(super) on_verdict: Option<Arc<OnVerdict>>,
}

/// Decision on a request.
pub(super) enum Admission<R> {
    /// The request has no key id and needs none.
    Unlimited,
    Refused(Response<R>),
    Allowed(Acquired),
    /// The store has not decided yet.
    Pending(Pin<Box<dyn Future<Output = Acquired> + Send>>),
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, limit, key_resolver, .. } = self;
        let mut out = f.debug_struct("Limiter");
        out.field("scope", scope).field("limit", limit).field("key_resolver", key_resolver).finish_non_exhaustive()
    }
}

// === impl Limiter ===

impl Limiter {
    pub(super) fn new(scope: Arc<str>, rule: Concurrency, settings: Settings, store: Arc<dyn SlotStore>) -> Self {
        let body = &settings.error_body;
        let denied = body.denial(settings.status, "concurrency-limited", TITLE, std::iter::once(&*scope));
        let unavailable = body.limiter_unavailable();
        let ambiguous_key = body.refusal(settings.empty_key_status, "ambiguous-key");
        let empty_key = settings.deny_empty_key.then(|| body.refusal(settings.empty_key_status, "empty-key"));
        Self {
            scope,
            limit: number_value(rule.limit()),
            key_resolver: settings.key_resolver,
            headers: settings.headers,
            store,
            denied,
            unavailable,
            empty_key,
            ambiguous_key,
            error_format: settings.error_format,
            on_verdict: None,
        }
    }

    /// Acquires a slot, or starts waiting for the store.
    pub(super) fn verify<B, R: From<Bytes>>(&self, request: &Request<B>) -> Admission<R> {
        let mut buf = KeyBuf::new();
        let Some(id) = self.key_resolver.resolve(request, &mut buf) else {
            let reply = match &self.empty_key {
                _ if self.key_resolver.is_ambiguous(request) => &self.ambiguous_key,
                Some(reply) => reply,
                None => return Admission::Unlimited,
            };
            let mut response = reply.to_response(request);
            Refusal::describe(self.error_format, || None, request, &mut response);
            return Admission::Refused(response);
        };
        match self.store.acquire(BucketKey { scope: &self.scope, id }) {
            Acquisition::Ready(acquired) => {
                self.notify(&acquired.verdict, Some(id));
                match self.refusal(&acquired.verdict, request) {
                    Some(response) => Admission::Refused(response),
                    None => Admission::Allowed(acquired),
                }
            }
            Acquisition::Pending(acquired) => Admission::Pending(acquired),
        }
    }

    /// Notifies the hook of a verdict.
    fn notify(&self, verdict: &Verdict, key: Option<&[u8]>) {
        if let Some(hook) = &self.on_verdict {
            hook(&VerdictEvent { name: &self.scope, key, verdict });
        }
    }

    /// Notifies the hook of an awaited verdict. The key is resolved again, since a waiting request keeps none.
    pub(super) fn notify_awaited<B>(&self, verdict: &Verdict, request: &Request<B>) {
        if self.on_verdict.is_some() {
            self.notify(verdict, self.key_resolver.resolve(request, &mut KeyBuf::new()));
        }
    }

    /// Returns the refusal if `verdict` does not allow the request.
    pub(super) fn refusal<B, R: From<Bytes>>(&self, verdict: &Verdict, request: &Request<B>) -> Option<Response<R>> {
        let (reply, retry_after) = match verdict.outcome {
            Outcome::Allowed => return None,
            Outcome::Denied { retry_after } => (&self.denied, Some(retry_after)),
            Outcome::NeverAdmitted => (&self.denied, None),
            Outcome::StoreUnavailable { retry_after } => (&self.unavailable, Some(retry_after)),
        };
        let mut response = reply.to_response(request);
        if let Some(wait) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, number_value(retry_after_secs(wait)));
        }
        Refusal::describe(self.error_format, || Some((verdict.outcome, Some(&self.scope))), request, &mut response);
        self.report(verdict, &mut response);
        Some(response)
    }

    /// Adds the headers of `verdict` before those of an inner limiter or the upstream.
    pub(super) fn report<B>(&self, verdict: &Verdict, response: &mut Response<B>) {
        Degraded::mark(verdict, response);
        if !self.headers.include {
            return;
        }
        let headers = response.headers_mut();
        let remaining = verdict.remaining.map_or(HeaderValue::from_static("-1"), number_value);
        prepend(headers, &self.headers.remaining, remaining);
        prepend(headers, &self.headers.limit, self.limit.clone());
        if verdict.source == Source::Fallback {
            prepend(headers, &DEGRADED, HeaderValue::from_static(Source::Fallback.as_str()));
        }
    }
}
