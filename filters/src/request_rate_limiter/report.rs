//! After the store was asked: what is told, what is settled, what stands on the response.

use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, Uri};

use super::ask::{Late, Question};
use super::enforcement::Part;
use super::event::{Event, Finding};
use super::limiter::{Limiter, Report};
use super::set::Set;
use super::settlement::{Charge, Meter, RequestMeter, ResponseMeter};
use super::turn::Wait;
use super::{Cost, OnLimit};
use crate::context::{Degraded, Rerouted};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::Check;
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

const WOULD_DENY: HeaderName = HeaderName::from_static("x-ratelimit-would-deny");

impl Limiter {
    /// What has to be settled later.
    pub(super) fn charges(self: &Arc<Self>, question: &Question, verdict: &Verdict) -> Vec<Charge> {
        self.corrections(question, verdict, |late| late.settles)
    }

    /// The wait of a request that was given a turn.
    pub(super) fn wait(self: &Arc<Self>, question: &Question, verdict: &Verdict) -> Option<Wait> {
        let turns = || self.corrections(question, verdict, |late| late.paces);
        (!verdict.delay.is_zero()).then(|| Wait { delay: verdict.delay, turns: turns() })
    }

    /// Nothing, if the store could not be asked: it would not know of it.
    fn corrections(
        self: &Arc<Self>,
        question: &Question,
        verdict: &Verdict,
        which: impl Fn(&Late) -> bool,
    ) -> Vec<Charge> {
        if verdict.source == Source::Fallback {
            return Vec::new();
        }
        let charge = |late: &Late| Charge {
            limiter: Arc::clone(self),
            set: question.set,
            limit: late.limit,
            id: late.id.clone(),
            reserved: late.reserved,
            counted_at_us: verdict
                .per_rule
                .get(late.position)
                .map_or(verdict.counted_at_us, |standing| standing.counted_at_us),
        };
        question.late().iter().filter(|late| which(late)).map(charge).collect()
    }

    /// Corrects what a request took.
    pub(super) fn settle(&self, charge: &Charge, more: i64) {
        let limit = &self.sets[usize::from(charge.set)].limits[usize::from(charge.limit)];
        let key = BucketKey { scope: &limit.scope, id: &charge.id };
        self.store.settle(Check { key, rule: &limit.rule, cost: charge.reserved }, more, charge.counted_at_us);
    }

    pub(super) fn cost(&self, charge: &Charge) -> &Cost {
        &self.sets[usize::from(charge.set)].limits[usize::from(charge.limit)].cost
    }

    /// The denial of a request that was to go elsewhere.
    pub(super) fn denied<B, R: From<Bytes>>(&self, report: &Report, request: &Request<B>) -> Response<R> {
        match &report.verdict {
            Some((question, verdict)) => self.sets[usize::from(question.set)].deny(verdict, question.asked(), request),
            None => self.unavailable.to_response(request),
        }
    }

    /// Last things before the request goes on.
    pub(super) fn send_off<B>(report: Option<&mut Report>, request: &mut Request<B>) {
        if let Some(extra) = report.and_then(|report| report.extra.as_mut())
            && let Some(meter) = Meter::take(&mut extra.charges, Cost::meters_requests)
        {
            request.extensions_mut().insert(RequestMeter(meter));
        }
    }

    /// Turns the request to where over-limit ones go.
    pub(super) fn turn<B>(&self, request: &mut Request<B>) {
        let OnLimit::Forward(path) = &self.on_limit else { return };
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        let query = parts.path_and_query.as_ref().and_then(PathAndQuery::query);
        let target = query.map_or_else(|| path.to_string(), |query| format!("{path}?{query}"));
        parts.path_and_query = target.parse().ok();
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        request.extensions_mut().insert(Rerouted);
    }

    /// Puts what there is to say on a response, and settles what it says.
    pub(super) fn report<R>(&self, report: Report, response: &mut Response<R>) {
        if let Some((question, verdict)) = &report.verdict {
            let set = &self.sets[usize::from(question.set)];
            set.headers.append_asked(verdict, question.asked(), response.headers_mut());
            Degraded::mark(verdict, response);
        }
        let Some(extra) = report.extra else { return };
        if let Some(value) = extra.would_deny.and_then(|names| HeaderValue::try_from(&*names).ok()) {
            response.headers_mut().insert(WOULD_DENY, value);
        }
        let mut charges = extra.charges;
        if let Some(meter) = Meter::take(&mut charges, Cost::meters_responses) {
            response.extensions_mut().insert(ResponseMeter(meter));
        }
        for charge in charges {
            if let Some(tokens) = charge.cost().of_response(response.headers()) {
                charge.settle(tokens);
            }
        }
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(hook) = &self.on_verdict {
            hook(event);
        }
    }

    /// Tells of each rule what came of it: of an allowed request all of them, of a denied one those that denied.
    #[inline]
    pub(super) fn tell_of(&self, set: &Set, question: &Question, part: Part, verdict: &Verdict) {
        let Some(hook) = &self.on_verdict else { return };
        let tell =
            |at: usize, finding| hook(Event { rule: Some(set.first + at), finding, source: Some(verdict.source) });
        let all = question.rules().iter().map(|at| usize::from(*at));
        match (verdict.outcome, part) {
            (Outcome::Allowed, _) => all.for_each(|at| tell(at, Finding::Allowed)),
            (Outcome::StoreUnavailable { .. }, _) => all.for_each(|at| tell(at, Finding::Unavailable)),
            (_, Part::Enforced) => set.violated(verdict, question.rules()).for_each(|at| tell(at, Finding::Denied)),
            (_, Part::Observed) => set.violated(verdict, question.rules()).for_each(|at| tell(at, Finding::Observed)),
        }
    }
}
