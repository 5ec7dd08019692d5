//! Responses to denied requests.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Request, Response, StatusCode};

use super::Limit;
use crate::context::{Degraded, LocalReply};
use crate::headers::{CheckedRules, NamedRule, RateLimitHeaders, retry_after_secs};
use crate::key_resolver::KeyBuf;
use crate::reply::{DenialFacts, ErrorBody, Reply, Template, body_for};
use tollgate_limiter::verdict::{Outcome, Verdict};

const LOCAL_REPLY: LocalReply = LocalReply { reason: "rate-limited" };
const TITLE: &str = "Request cannot be satisfied as assigned quota has been exceeded";

/// Denials of a rule set.
#[derive(Clone)]
pub(super) enum Denial {
    Prepared(PreparedReplies),
    Template { status: StatusCode, template: Arc<Template>, route: Arc<str>, plan: Arc<str>, local_reply: bool },
}

/// Replies for combinations of violated rules, each prepared by its first denial: most routes deny nothing.
#[derive(Clone)]
pub(super) struct PreparedReplies {
    /// That of the bit mask `m` is at `m - 1`.
    replies: Box<[OnceLock<Reply>]>,
    /// Names of the rules.
    names: Box<[Box<str>]>,
    body: ErrorBody,
    status: StatusCode,
    local_reply: bool,
}

impl PreparedReplies {
    fn get(&self, violated: usize, headers: &RateLimitHeaders) -> Option<&Reply> {
        let mask = usize::max(violated, 1);
        Some(self.replies.get(mask - 1)?.get_or_init(|| self.prepare(mask, headers)))
    }

    #[cold]
    fn prepare(&self, mask: usize, headers: &RateLimitHeaders) -> Reply {
        let violated = self.names.iter().enumerate().filter(|(at, _)| mask & 1 << at != 0);
        let names = violated.map(|(_, name)| &**name);
        let mut reply = self.body.denial(self.status, LOCAL_REPLY.reason, TITLE, names);
        reply.prepare(|map| headers.prepare(map));
        if !self.local_reply {
            reply.omit_local_reply();
        }
        reply
    }
}

impl Denial {
    pub(super) fn new(
        rules: &[NamedRule<'_>],
        (route, plan): (&Arc<str>, &Arc<str>),
        body: &ErrorBody,
        status: StatusCode,
    ) -> Self {
        match body {
            ErrorBody::Template(template) => {
                let (template, route, plan) = (Arc::clone(template), Arc::clone(route), Arc::clone(plan));
                Self::Template { status, template, route, plan, local_reply: true }
            }
            ErrorBody::Problem | ErrorBody::Empty => Self::Prepared(PreparedReplies {
                replies: (1..1 << rules.len()).map(|_| OnceLock::new()).collect(),
                names: rules.iter().map(|rule| rule.name.into()).collect(),
                body: body.clone(),
                status,
                local_reply: true,
            }),
        }
    }

    /// Returns the response to `request`.
    ///
    /// `violated` is the bit mask of the rules that deny. `nearest` is the rule that the figures of `verdict` are about, with
    /// its capacity.
    pub(super) fn response<B>(
        &self,
        violated: usize,
        nearest: Option<(&Limit, u64)>,
        verdict: &Verdict,
        (headers, checked): (&RateLimitHeaders, CheckedRules<'_>),
        request: &Request<B>,
    ) -> Response<Bytes> {
        let mut response = match self {
            Self::Prepared(replies) => {
                let Some(reply) = replies.get(violated, headers) else {
                    return Response::new(Bytes::new());
                };
                let mut response = reply.to_response(request);
                headers.complete(verdict, checked, response.headers_mut());
                response
            }
            Self::Template { status, template, route, plan, local_reply } => {
                let mut response = rendered(template, nearest, (route, plan), verdict, request);
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
            Self::Prepared(replies) => replies.local_reply = false,
            Self::Template { local_reply, .. } => *local_reply = false,
        }
    }
}

fn rendered<B>(
    template: &Template,
    nearest: Option<(&Limit, u64)>,
    (route, plan): (&str, &str),
    verdict: &Verdict,
    request: &Request<B>,
) -> Response<Bytes> {
    let retry_after = match verdict.outcome {
        Outcome::Denied { retry_after } => Some(retry_after_secs(retry_after)),
        Outcome::Allowed | Outcome::NeverAdmitted | Outcome::StoreUnavailable { .. } => None,
    };
    let (remaining, mut buf) = (verdict.remaining, KeyBuf::new());
    let key = match nearest {
        Some((limit, _)) => limit.key_resolver.resolve(request, &mut buf),
        None => None,
    };
    let key = String::from_utf8_lossy(key.unwrap_or_default());
    let (rule, limit) = nearest.map_or(("", 0), |(limit, capacity)| (&*limit.name, capacity));
    let facts = DenialFacts { retry_after, limit, remaining, rule, route, plan, key: &key };
    let (mut headers, body) = template.render(&facts);
    let mut response = Response::new(body_for(request.method(), &mut headers, body));
    *response.headers_mut() = headers;
    response
}
