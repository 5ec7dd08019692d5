//! What all services of one layer share: the store, and everything about answers that is known at load.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Request, Response, StatusCode};

use super::OnVerdict;
use super::{HeaderNames, Settings};
use crate::context::Degraded;
use crate::headers::{DEGRADED, add_in_front, number_value, retry_after_secs};
use crate::key_resolver::{KeyBuf, KeyResolver};
use crate::reply::{self, Reply};
use crate::request_rate_limiter::ErrorBody;
use tollgate_limiter::concurrency::{Acquired, Acquisition, Concurrency, LeaseStore};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

/// A concurrency limiter without the service behind it.
#[derive(Clone)]
pub(super) struct Limiter {
    scope: Arc<str>,
    limit: HeaderValue,
    key_resolver: KeyResolver,
    headers: HeaderNames,
    store: Arc<dyn LeaseStore>,
    denied: Reply,
    unavailable: Reply,
    /// None: a request without a key id passes.
    empty_key: Option<Reply>,
    pub(super) on_verdict: Option<OnVerdict>,
}

/// What becomes of a request.
pub(super) enum Answer<R> {
    /// It has no key id and need not have one.
    Unlimited,
    Refused(Response<R>),
    Allowed(Acquired),
    /// The store is being asked.
    Pending(Pin<Box<dyn Future<Output = Acquired> + Send>>),
}

// === impl Limiter ===

impl Limiter {
    pub(super) fn new(scope: Arc<str>, rule: Concurrency, settings: Settings, store: Arc<dyn LeaseStore>) -> Self {
        let reply = |status, reason, kind: &str, title, members: &str| match settings.error_body {
            ErrorBody::Empty => Reply::empty(status, reason),
            _ => Reply::problem(status, reason, kind, title, members),
        };
        // Both problem types: draft-ietf-httpapi-ratelimit-headers, "Problem Types".
        let denied = reply(
            settings.status,
            "concurrency-limited",
            "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Some("Request cannot be satisfied as too many are under way"),
            &format!(r#","violated-policies":[{}]"#, reply::json_string(&scope)),
        );
        let unavailable = reply(
            StatusCode::SERVICE_UNAVAILABLE,
            "limiter-unavailable",
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            Some("Request cannot be satisfied due to temporary server capacity constraints"),
            "",
        );
        let empty_key =
            settings.deny_empty_key.then(|| reply(settings.empty_key_status, "empty-key", "about:blank", None, ""));
        Self {
            scope,
            limit: number_value(rule.limit()),
            key_resolver: settings.key_resolver,
            headers: settings.headers,
            store,
            denied,
            unavailable,
            empty_key,
            on_verdict: None,
        }
    }

    /// Takes a slot, or asks for one.
    pub(super) fn verify<B, R: From<Bytes>>(&self, request: &Request<B>) -> Answer<R> {
        let mut buf = KeyBuf::new();
        let Some(id) = self.key_resolver.resolve(request, &mut buf) else {
            return match &self.empty_key {
                Some(reply) => Answer::Refused(reply.to_response(request)),
                None => Answer::Unlimited,
            };
        };
        match self.store.acquire(BucketKey { scope: &self.scope, id }) {
            Acquisition::Ready(acquired) => match self.refusal(&acquired.verdict, request) {
                Some(response) => Answer::Refused(response),
                None => Answer::Allowed(acquired),
            },
            Acquisition::Pending(acquired) => Answer::Pending(acquired),
        }
    }

    /// Reports `verdict` to the hook, and says no if it does.
    pub(super) fn refusal<B, R: From<Bytes>>(&self, verdict: &Verdict, request: &Request<B>) -> Option<Response<R>> {
        if let Some(hook) = &self.on_verdict {
            hook(verdict);
        }
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
        self.report(verdict, &mut response);
        Some(response)
    }

    /// Puts what `verdict` says before what an inner limiter or the upstream says.
    pub(super) fn report<B>(&self, verdict: &Verdict, response: &mut Response<B>) {
        Degraded::mark(verdict, response);
        if !self.headers.include {
            return;
        }
        let headers = response.headers_mut();
        let remaining = verdict.remaining.map_or(HeaderValue::from_static("-1"), number_value);
        add_in_front(headers, &self.headers.remaining, remaining);
        add_in_front(headers, &self.headers.limit, self.limit.clone());
        if verdict.source == Source::Fallback {
            add_in_front(headers, &DEGRADED, HeaderValue::from_static(Source::Fallback.as_str()));
        }
    }
}
