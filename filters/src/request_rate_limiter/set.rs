//! A set of rules, ready to decide and to deny.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};

use super::enforcement::Enforcement;
use super::limit::Limit;
use super::template::{Facts, Template};
use super::{Cost, ErrorBody, Settings};
use crate::context::{Degraded, LocalReply};
use crate::headers::{Asked, Described, RateLimitHeaders, retry_after_secs};
use crate::key_resolver::KeyResolver;
use crate::reply::{self, Reply};
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::MAX_CHECKS;
use tollgate_limiter::verdict::{Outcome, Verdict};

/// One plan's rules with everything about them that is known at load.
#[derive(Clone)]
pub(super) struct Set {
    pub(super) limits: Box<[Bound]>,
    pub(super) headers: RateLimitHeaders,
    /// The number of its first rule, see [`Event::rule`](super::Event::rule).
    pub(super) first: usize,
    /// Whether some key is only observed under some rule.
    pub(super) observes: bool,
    /// Whether a request's cost depends on the request, or it may have to wait.
    pub(super) varies: bool,
    denied: Denial,
}

/// A rule whose every setting is filled in.
#[derive(Clone)]
pub(super) struct Bound {
    pub(super) name: Arc<str>,
    pub(super) scope: Arc<str>,
    pub(super) rule: Rule,
    pub(super) key_resolver: KeyResolver,
    pub(super) cost: Cost,
    pub(super) enforcement: Enforcement,
}

/// What denied requests are answered.
#[derive(Clone)]
enum Denial {
    /// By the rules that denied, as a mask of their places less one.
    Ready(Box<[Reply]>),
    Template {
        status: StatusCode,
        template: Arc<Template>,
        route: Arc<str>,
        marked: bool,
    },
}

impl Set {
    pub(super) fn new(limits: Vec<Limit>, first: usize, route: &Arc<str>, settings: &Settings) -> Self {
        let bind = |limit: Limit| Bound {
            name: limit.name,
            scope: limit.scope,
            rule: limit.rule,
            key_resolver: limit.key_resolver.unwrap_or_else(|| settings.key_resolver.clone()),
            cost: limit.cost,
            enforcement: limit.enforcement.and(settings.enforcement),
        };
        let limits: Box<[Bound]> = limits.into_iter().take(MAX_CHECKS).map(bind).collect();
        let described: Vec<_> = limits
            .iter()
            .map(|limit| Described { name: &limit.name, rule: &limit.rule, cost: limit.cost.tokens })
            .collect();
        let headers = RateLimitHeaders::new(settings.headers.clone(), &described);
        let denied = match &settings.error_body {
            ErrorBody::Template(template) => Denial::Template {
                status: settings.status,
                template: Arc::clone(template),
                route: Arc::clone(route),
                marked: true,
            },
            body => {
                let masks = 1_usize..1 << limits.len();
                Denial::Ready(masks.map(|mask| denial(&limits, mask, body, settings.status, &headers)).collect())
            }
        };
        Self {
            first,
            observes: limits.iter().any(|limit| !limit.enforcement.is_full()),
            varies: limits.iter().any(|limit| limit.cost.varies() || limit.paces()),
            limits,
            headers,
            denied,
        }
    }

    /// The answer to a request that `verdict` denies.
    pub(super) fn deny<B, R: From<Bytes>>(
        &self,
        verdict: &Verdict,
        asked: Asked<'_>,
        request: &Request<B>,
    ) -> Response<R> {
        match &self.denied {
            Denial::Ready(replies) => {
                let mask = self.violated(verdict, asked.rules).fold(0, |mask, at| mask | 1 << at);
                let Some(reply) = replies.get(usize::max(mask, 1) - 1) else {
                    return Response::new(Bytes::new().into());
                };
                let mut response = reply.to_response(request);
                self.headers.complete(verdict, asked, response.headers_mut());
                Degraded::mark(verdict, &mut response);
                response
            }
            Denial::Template { status, template, route, marked } => {
                let retry_after = match verdict.outcome {
                    Outcome::Denied { retry_after } => Some(retry_after_secs(retry_after)),
                    _ => None,
                };
                let nearest = asked.rules.get(verdict.rule).and_then(|at| self.limits.get(usize::from(*at)));
                let (headers, body) = template.render(&Facts {
                    retry_after,
                    limit: nearest.map_or(0, |limit| limit.rule.capacity()),
                    remaining: verdict.remaining,
                    rule: nearest.map_or("", |limit| &limit.name),
                    route,
                });
                let body = if request.method() == Method::HEAD { Bytes::new() } else { body };
                let mut response = Response::new(R::from(body));
                *response.status_mut() = *status;
                *response.headers_mut() = headers;
                RateLimitHeaders::set_retry_after(verdict, response.headers_mut());
                self.headers.append_asked(verdict, asked, response.headers_mut());
                Degraded::mark(verdict, &mut response);
                if *marked {
                    response.extensions_mut().insert(LocalReply { reason: REASON });
                }
                response
            }
        }
    }

    /// The places of the rules that deny.
    pub(super) fn violated<'v>(&self, verdict: &'v Verdict, rules: &'v [u8]) -> impl Iterator<Item = usize> + 'v {
        let at = move |position: usize| rules.get(position).map(|at| usize::from(*at));
        let only = verdict.per_rule.is_empty().then(|| at(verdict.rule)).flatten();
        let several = verdict.per_rule.iter().enumerate().filter(|(_, answer)| answer.outcome != Outcome::Allowed);
        several.filter_map(move |(position, _)| at(position)).chain(only)
    }

    /// Leaves the mark off denials.
    pub(super) fn unmark(&mut self) {
        match &mut self.denied {
            Denial::Ready(replies) => replies.iter_mut().for_each(Reply::unmark),
            Denial::Template { marked, .. } => *marked = false,
        }
    }
}

impl Bound {
    /// Whether requests wait for their turn under it.
    pub(super) fn paces(&self) -> bool {
        self.rule.algorithm().spec().paces
    }
}

const REASON: &str = "rate-limited";

/// The answer when the rules of `mask` deny.
fn denial(limits: &[Bound], mask: usize, body: &ErrorBody, status: StatusCode, headers: &RateLimitHeaders) -> Reply {
    let names = limits.iter().enumerate().filter(|(at, _)| mask & 1 << at != 0);
    let names: Vec<String> = names.map(|(_, limit)| reply::json_string(&limit.name)).collect();
    let mut denied = match body {
        ErrorBody::Empty => Reply::empty(status, REASON),
        // The type: draft-ietf-httpapi-ratelimit-headers, "Problem Types".
        _ => Reply::problem(
            status,
            REASON,
            "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Some("Request cannot be satisfied as assigned quota has been exceeded"),
            &format!(r#","violated-policies":[{}]"#, names.join(",")),
        ),
    };
    denied.prepare(|map| headers.prepare(map));
    denied
}
