//! Responses to denied requests.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};

use crate::context::{Degraded, LocalReply};
use crate::headers::{CheckedRules, NamedRule, RateLimitHeaders, retry_after_secs};
use crate::reply::{DenialFacts, ErrorBody, Reply, Template};
use tollgate_limiter::verdict::{Outcome, Verdict};

const LOCAL_REPLY: LocalReply = LocalReply { reason: "rate-limited" };
const TITLE: &str = "Request cannot be satisfied as assigned quota has been exceeded";

/// Denials of a rule set.
#[derive(Clone)]
pub(super) enum Denial {
    /// A reply for each combination of violated rules: that of the bit mask `m` is at `m - 1`.
    Prepared(Box<[Reply]>),
    Template {
        status: StatusCode,
        template: Arc<Template>,
        route: Arc<str>,
        local_reply: bool,
    },
}

impl Denial {
    pub(super) fn new(
        rules: &[NamedRule<'_>],
        route: &Arc<str>,
        body: &ErrorBody,
        status: StatusCode,
        headers: &RateLimitHeaders,
    ) -> Self {
        let prepare = |mask: usize| {
            let violated = rules.iter().enumerate().filter(|(at, _)| mask & 1 << at != 0);
            let mut reply = body.denial(status, LOCAL_REPLY.reason, TITLE, violated.map(|(_, rule)| rule.name));
            reply.prepare(|map| headers.prepare(map));
            reply
        };
        match body {
            ErrorBody::Template(template) => {
                let (template, route) = (Arc::clone(template), Arc::clone(route));
                Self::Template { status, template, route, local_reply: true }
            }
            ErrorBody::Problem | ErrorBody::Empty => Self::Prepared((1..1 << rules.len()).map(prepare).collect()),
        }
    }

    /// Returns the response to `request`.
    ///
    /// `violated` is the bit mask of the rules that deny. `nearest` is the name and capacity of the rule that the
    /// figures of `verdict` are about.
    pub(super) fn response<B, R: From<Bytes>>(
        &self,
        violated: usize,
        nearest: Option<(&str, u64)>,
        verdict: &Verdict,
        (headers, checked): (&RateLimitHeaders, CheckedRules<'_>),
        request: &Request<B>,
    ) -> Response<R> {
        let mut response = match self {
            Self::Prepared(replies) => {
                let Some(reply) = replies.get(usize::max(violated, 1) - 1) else {
                    return Response::new(Bytes::new().into());
                };
                let mut response = reply.to_response(request);
                headers.complete(verdict, checked, response.headers_mut());
                response
            }
            Self::Template { status, template, route, local_reply } => {
                let (rule, limit) = nearest.unwrap_or_default();
                let mut response = rendered(template, rule, limit, route, verdict, request.method());
                *response.status_mut() = *status;
                RateLimitHeaders::set_retry_after(verdict, response.headers_mut());
                headers.append_checked(verdict, checked, response.headers_mut());
                if *local_reply {
                    response.extensions_mut().insert(LOCAL_REPLY);
                }
                response
            }
        };
        Degraded::mark(verdict, &mut response);
        response
    }

    /// Omits [`LocalReply`] from responses.
    pub(super) fn omit_local_reply(&mut self) {
        match self {
            Self::Prepared(replies) => replies.iter_mut().for_each(Reply::omit_local_reply),
            Self::Template { local_reply, .. } => *local_reply = false,
        }
    }
}

fn rendered<R: From<Bytes>>(
    template: &Template,
    rule: &str,
    limit: u64,
    route: &str,
    verdict: &Verdict,
    method: &Method,
) -> Response<R> {
    let retry_after = match verdict.outcome {
        Outcome::Denied { retry_after } => Some(retry_after_secs(retry_after)),
        Outcome::Allowed | Outcome::NeverAdmitted | Outcome::StoreUnavailable { .. } => None,
    };
    let remaining = verdict.remaining;
    let (headers, body) = template.render(&DenialFacts { retry_after, limit, remaining, rule, route });
    let body = if method == Method::HEAD { Bytes::new() } else { body };
    let mut response = Response::new(R::from(body));
    *response.headers_mut() = headers;
    response
}
