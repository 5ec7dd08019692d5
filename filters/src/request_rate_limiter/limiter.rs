//! What all services of one layer share, and what becomes of a request.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};

use super::access::AccessList;
use super::ask::{Asking, Question};
use super::enforcement::Part;
use super::event::OnVerdict;
use super::limit::{PlanResolver, RuleSets};
use super::set::Set;
use super::settlement::Charge;
use super::turn::Wait;
use super::{ErrorBody, OnLimit, Settings};
use crate::context::{Degraded, Rerouted};
use crate::headers::RateLimitHeaders;
use crate::key_resolver::KeyResolver;
use crate::reply::Reply;
use tollgate_limiter::plan::PlanLookup;
use tollgate_limiter::store::Store;
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

/// A rate limiter without the service behind it.
#[derive(Clone)]
pub(super) struct Limiter {
    pub(super) sets: Box<[Set]>,
    plans: Option<Plans>,
    pub(super) key_resolver: KeyResolver,
    access: Option<Box<Access>>,
    pub(super) store: Arc<dyn Store>,
    pub(super) unavailable: Reply,
    /// None: a request without a key id passes.
    pub(super) empty_key: Option<Reply>,
    pub(super) on_limit: OnLimit,
    tells_would_deny: bool,
    pub(super) on_verdict: Option<OnVerdict>,
}

#[derive(Clone)]
pub(super) struct Plans {
    pub(super) resolver: PlanResolver,
    sets: HashMap<Box<str>, usize>,
    default: usize,
}

#[derive(Clone)]
pub(super) struct Access {
    pub(super) exempt: AccessList,
    pub(super) block: AccessList,
    pub(super) blocked: Reply,
    /// Under observation nobody is turned away.
    pub(super) enforced: bool,
    /// Whatever requests are counted under.
    pub(super) resolvers: Vec<KeyResolver>,
}

pub(super) type PendingVerdict = Pin<Box<dyn Future<Output = Verdict> + Send>>;
pub(super) type PendingPlan = Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send>>;

/// What becomes of a request.
pub(super) enum Answer<R> {
    Refused(Response<R>),
    /// It goes on; `None` where nothing is left to do with its response.
    Passed(Option<Report>),
    /// It goes on elsewhere, since it was denied (`on-limit`).
    Elsewhere(Report),
    /// Its plan is being asked for.
    Choosing(PendingPlan),
    /// The store is being asked.
    Pending(Pending),
}

/// A question that a store thinks about.
pub(super) struct Pending {
    pub(super) verdict: PendingVerdict,
    question: Question,
    part: Part,
    before: Option<Box<Report>>,
}

/// What there is to say on the response, and to settle.
#[derive(Default)]
pub(super) struct Report {
    pub(super) verdict: Option<(Question, Verdict)>,
    pub(super) extra: Option<Box<Extra>>,
}

/// What there seldom is.
#[derive(Default)]
pub(super) struct Extra {
    pub(super) would_deny: Option<Arc<str>>,
    pub(super) charges: Vec<Charge>,
    pub(super) wait: Option<Wait>,
}

// === impl Limiter ===

impl Limiter {
    pub(super) fn new(route: &Arc<str>, rules: RuleSets, settings: Settings, store: Arc<dyn Store>) -> Self {
        let reply = |status, reason, kind: &str, title| match settings.error_body {
            ErrorBody::Empty => Reply::empty(status, reason),
            _ => Reply::problem(status, reason, kind, title, ""),
        };
        let unavailable = reply(
            StatusCode::SERVICE_UNAVAILABLE,
            "limiter-unavailable",
            // draft-ietf-httpapi-ratelimit-headers, "Problem Types".
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            Some("Request cannot be satisfied due to temporary server capacity constraints"),
        );
        let empty_key =
            settings.deny_empty_key.then(|| reply(settings.empty_key_status, "empty-key", "about:blank", None));
        let blocked = reply(settings.block_status, "blocked", "about:blank", None);
        let mut resolvers = vec![settings.key_resolver.clone()];
        for own in rules.rules().filter_map(|limit| limit.key_resolver.as_ref()) {
            if !resolvers.contains(own) {
                resolvers.push(own.clone());
            }
        }
        let access = Access {
            exempt: settings.exempt.clone(),
            block: settings.block.clone(),
            blocked,
            enforced: settings.enforcement.is_full(),
            resolvers,
        };
        let mut first = 0;
        let mut set = |limits: Vec<_>| {
            let set = Set::new(limits, first, route, &settings);
            first += set.limits.len();
            set
        };
        let mut sets = vec![set(rules.default)];
        let plans = rules.plans.map(|plans| {
            let mut known = HashMap::new();
            for (name, limits) in plans.sets {
                known.insert(Box::from(&*name), sets.len());
                sets.push(set(limits));
            }
            let default = plans.default.and_then(|name| known.get(&*name).copied()).unwrap_or(0);
            Plans { resolver: plans.resolver, sets: known, default }
        });
        Self {
            sets: sets.into(),
            plans,
            key_resolver: settings.key_resolver,
            access: (!(access.exempt.is_empty() && access.block.is_empty())).then(|| Box::new(access)),
            store,
            unavailable,
            empty_key,
            on_limit: settings.on_limit,
            tells_would_deny: settings.tells_would_deny,
            on_verdict: None,
        }
    }

    /// Takes the request's tokens, or asks for them.
    pub(super) fn verify<B, R: From<Bytes>>(self: &Arc<Self>, request: &Request<B>) -> Answer<R> {
        if let Some(access) = &self.access
            && let Some(answer) = self.screen(access, request)
        {
            return answer;
        }
        match &self.plans {
            None => self.verify_under(0, request),
            Some(plans) => match self.plan(plans, request) {
                PlanLookup::Ready(name) => self.verify_under(plans.set(name.as_deref()), request),
                PlanLookup::Pending(name) => Answer::Choosing(name),
            },
        }
    }

    /// The same once it is known that the request's plan is `name`.
    pub(super) fn verify_planned<B, R: From<Bytes>>(
        self: &Arc<Self>,
        name: Option<&str>,
        request: &Request<B>,
    ) -> Answer<R> {
        self.verify_under(self.plans.as_ref().map_or(0, |plans| plans.set(name)), request)
    }

    #[inline]
    fn verify_under<B, R: From<Bytes>>(self: &Arc<Self>, at: usize, request: &Request<B>) -> Answer<R> {
        let set = &self.sets[at];
        match self.ask(at, Part::Enforced, request) {
            // Most requests: allowed, and nothing left to ask or to settle.
            Asking::Ready(question, verdict) if verdict.is_allowed() && !set.observes && !set.varies => {
                self.tell_of(set, &question, Part::Enforced, &verdict);
                let reports = set.headers.included() || verdict.source == Source::Fallback;
                Answer::Passed(reports.then(|| Report { verdict: Some((question, verdict)), extra: None }))
            }
            asking => self.heed(at, Part::Enforced, asking, None, request),
        }
    }

    /// What follows from a question.
    fn heed<B, R: From<Bytes>>(
        self: &Arc<Self>,
        set: usize,
        part: Part,
        asking: Asking<R>,
        before: Option<Box<Report>>,
        request: &Request<B>,
    ) -> Answer<R> {
        match asking {
            Asking::NoKey(response) => Answer::Refused(response),
            Asking::Nothing => self.go_on(set, part, before, request),
            Asking::Ready(question, verdict) => self.conclude(question, part, verdict, before, request),
            Asking::Pending(question, verdict) => Answer::Pending(Pending { verdict, question, part, before }),
        }
    }

    /// What follows from the verdict that was asked for.
    pub(super) fn resume<B, R: From<Bytes>>(
        self: &Arc<Self>,
        pending: Pending,
        verdict: Verdict,
        request: &Request<B>,
    ) -> Answer<R> {
        self.conclude(pending.question, pending.part, verdict, pending.before, request)
    }

    fn conclude<B, R: From<Bytes>>(
        self: &Arc<Self>,
        question: Question,
        part: Part,
        verdict: Verdict,
        before: Option<Box<Report>>,
        request: &Request<B>,
    ) -> Answer<R> {
        let set = &self.sets[usize::from(question.set)];
        self.tell_of(set, &question, part, &verdict);
        let at = usize::from(question.set);
        let reports = set.headers.included() || verdict.source == Source::Fallback;
        match (part, verdict.outcome) {
            (_, Outcome::Allowed) => {
                let charges = self.charges(&question, &verdict);
                // What is only observed makes nobody wait.
                let wait = self.wait(&question, &verdict).filter(|_| part == Part::Enforced);
                if !reports && charges.is_empty() && wait.is_none() && before.is_none() {
                    return self.go_on(at, part, None, request);
                }
                let mut report = before.unwrap_or_default();
                if !charges.is_empty() || wait.is_some() {
                    let extra = report.extra.get_or_insert_default();
                    extra.charges.extend(charges);
                    extra.wait = extra.wait.take().or(wait);
                }
                if part == Part::Enforced && reports {
                    report.verdict = Some((question, verdict));
                }
                self.go_on(at, part, Some(report), request)
            }
            (Part::Enforced, Outcome::StoreUnavailable { .. }) => {
                let mut response = self.unavailable.to_response(request);
                RateLimitHeaders::set_retry_after(&verdict, response.headers_mut());
                set.headers.append_asked(&verdict, question.asked(), response.headers_mut());
                Degraded::mark(&verdict, &mut response);
                Answer::Refused(response)
            }
            (Part::Enforced, _) => match &self.on_limit {
                OnLimit::Forward(_) if request.extensions().get::<Rerouted>().is_none() => {
                    Answer::Elsewhere(Report { verdict: Some((question, verdict)), ..Report::default() })
                }
                _ => Answer::Refused(set.deny(&verdict, question.asked(), request)),
            },
            (Part::Observed, outcome) => {
                let mut report = before.unwrap_or_default();
                if !matches!(outcome, Outcome::StoreUnavailable { .. }) {
                    let names: Vec<&str> =
                        set.violated(&verdict, question.rules()).map(|at| &*set.limits[at].name).collect();
                    tracing::debug!(rules = names.join(","), "would be denied, and is only observed");
                    if self.tells_would_deny {
                        report.extra.get_or_insert_default().would_deny = Some(names.join(", ").into());
                    }
                }
                self.go_on(at, part, Some(report), request)
            }
        }
    }

    /// After one part: the next, or on to the inner service.
    fn go_on<B, R: From<Bytes>>(
        self: &Arc<Self>,
        set: usize,
        part: Part,
        report: Option<Box<Report>>,
        request: &Request<B>,
    ) -> Answer<R> {
        if part == Part::Enforced && self.sets[set].observes {
            let asking = self.ask(set, Part::Observed, request);
            return self.heed(set, Part::Observed, asking, report, request);
        }
        Answer::Passed(report.map(|report| *report))
    }

    /// Leaves the mark off refusals.
    pub(super) fn unmark(&mut self) {
        let blocked = self.access.as_mut().map(|access| &mut access.blocked);
        let replies = std::iter::once(&mut self.unavailable).chain(&mut self.empty_key).chain(blocked);
        replies.for_each(Reply::unmark);
        self.sets.iter_mut().for_each(Set::unmark);
    }
}

impl Plans {
    fn set(&self, name: Option<&str>) -> usize {
        name.and_then(|name| self.sets.get(name).copied()).unwrap_or(self.default)
    }
}
