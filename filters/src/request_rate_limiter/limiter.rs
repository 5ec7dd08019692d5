//! What all services of one layer share: the rule, the store, and everything about answers that is known at load.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};

use super::{ErrorBody, OnVerdict, Settings};
use crate::headers::RateLimitHeaders;
use crate::key_resolver::{KeyBuf, KeyResolver};
use crate::limiter::key::BucketKey;
use crate::limiter::rule::Rule;
use crate::limiter::store::{Check, Decision, Store};
use crate::limiter::verdict::{Outcome, Source, Verdict};
use crate::reply::{self, Reply};

/// A rate limiter without the service behind it.
#[derive(Clone)]
pub(super) struct Limiter {
    scope: Arc<str>,
    rule: Rule,
    cost: u64,
    key_resolver: KeyResolver,
    headers: RateLimitHeaders,
    store: Arc<dyn Store>,
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
    Allowed(Verdict),
    /// The store is being asked.
    Pending(Pin<Box<dyn Future<Output = Verdict> + Send>>),
}

// === impl Limiter ===

impl Limiter {
    pub(super) fn new(scope: Arc<str>, rule: Rule, settings: Settings, store: Arc<dyn Store>) -> Self {
        let reply = |status, reason, kind: &str, title, members: &str| match settings.error_body {
            ErrorBody::Problem => Reply::problem(status, reason, kind, title, members),
            ErrorBody::Empty => Reply::empty(status, reason),
        };
        // Both problem types: draft-ietf-httpapi-ratelimit-headers, "Problem Types".
        let mut denied = reply(
            settings.status,
            "rate-limited",
            "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Some("Request cannot be satisfied as assigned quota has been exceeded"),
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
        let headers = RateLimitHeaders::new(settings.headers, &rule, settings.cost);
        denied.prepare(|map| headers.prepare(map));
        Self {
            scope,
            rule,
            cost: settings.cost,
            key_resolver: settings.key_resolver,
            headers,
            store,
            denied,
            unavailable,
            empty_key,
            on_verdict: None,
        }
    }

    /// Takes the request's tokens, or asks for them.
    pub(super) fn verify<B, R: From<Bytes>>(&self, request: &Request<B>) -> Answer<R> {
        let mut buf = KeyBuf::new();
        let Some(id) = self.key_resolver.resolve(request, &mut buf) else {
            return match &self.empty_key {
                Some(reply) => Answer::Refused(reply.to_response(request)),
                None => Answer::Unlimited,
            };
        };
        let check = Check { key: BucketKey { scope: &self.scope, id }, rule: &self.rule, cost: self.cost };
        match self.store.decide(&[check]) {
            Decision::Ready(verdict) => match self.refusal(&verdict, request) {
                Some(response) => Answer::Refused(response),
                None => Answer::Allowed(verdict),
            },
            Decision::Pending(verdict) => Answer::Pending(verdict),
        }
    }

    /// Reports `verdict` to the hook, and says no if it does.
    pub(super) fn refusal<B, R: From<Bytes>>(&self, verdict: &Verdict, request: &Request<B>) -> Option<Response<R>> {
        if let Some(hook) = &self.on_verdict {
            hook(verdict);
        }
        match verdict.outcome {
            Outcome::Allowed => None,
            Outcome::Denied { .. } | Outcome::NeverAdmitted => {
                let mut response = self.denied.to_response(request);
                self.headers.complete(verdict, response.headers_mut());
                Some(response)
            }
            Outcome::StoreUnavailable { .. } => {
                let mut response = self.unavailable.to_response(request);
                RateLimitHeaders::set_retry_after(verdict, response.headers_mut());
                self.headers.append(verdict, response.headers_mut());
                Some(response)
            }
        }
    }

    /// Gives back the turn of a request whose client left before it came. Where a fallback gave it, on a clock of its
    /// own, it passes unused.
    pub(super) fn give_back<B>(&self, request: &Request<B>, verdict: &Verdict) {
        let mut buf = KeyBuf::new();
        let Some(id) = self.key_resolver.resolve(request, &mut buf) else { return };
        let check = Check { key: BucketKey { scope: &self.scope, id }, rule: &self.rule, cost: self.cost };
        if verdict.source != Source::Fallback {
            self.store.settle(check, i64::try_from(self.cost).map_or(i64::MIN, |cost| -cost), verdict.counted_at_us);
        }
    }

    /// Leaves the mark off refusals.
    pub(super) fn unmark(&mut self) {
        let replies = [&mut self.denied, &mut self.unavailable].into_iter().chain(&mut self.empty_key);
        replies.for_each(Reply::unmark);
    }

    /// Whether responses that pass are to be touched at all.
    pub(super) fn reports(&self) -> bool {
        self.headers.included()
    }

    /// Puts what `verdict` says on a response that passes.
    pub(super) fn report<R>(&self, verdict: &Verdict, response: &mut Response<R>) {
        self.headers.append(verdict, response.headers_mut());
    }
}
