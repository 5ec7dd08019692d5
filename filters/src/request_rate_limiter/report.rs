//! Steps after the store decided: events, settlement, response headers.

use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, Uri};

use super::check_set::{AdjustableCheck, CheckSet};
use super::cost::Cost;
use super::enforcement::Stage;
use super::event::{VerdictEvent, VerdictKind};
use super::limiter::{LimitIndex, Limiter};
use super::outcome::{PacingDelay, Report};
use super::settings::OnLimit;
use super::settlement::{Meter, RequestMeter, Reservation, ResponseMeter};
use crate::context::{Degraded, Rerouted};
use crate::key_resolver::KeyBuf;
use tollgate_limiter::store::Check;
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

const WOULD_DENY: HeaderName = HeaderName::from_static("x-ratelimit-would-deny");

impl Limiter {
    /// Returns the reservations with a cost that is known only later.
    pub(super) fn reservations(self: &Arc<Self>, check_set: &CheckSet, verdict: &Verdict) -> Vec<Reservation> {
        self.reservations_where(check_set, verdict, |check| check.settles)
    }

    /// Returns the delay of a paced request.
    pub(super) fn pacing_delay(self: &Arc<Self>, check_set: &CheckSet, verdict: &Verdict) -> Option<PacingDelay> {
        let slots = || self.reservations_where(check_set, verdict, |check| check.paces);
        (!verdict.delay.is_zero()).then(|| PacingDelay { delay: verdict.delay, slots: slots() })
    }

    /// Returns no reservation for a verdict of the fallback: the store has none to correct.
    fn reservations_where(
        self: &Arc<Self>,
        check_set: &CheckSet,
        verdict: &Verdict,
        selects: impl Fn(&AdjustableCheck) -> bool,
    ) -> Vec<Reservation> {
        if verdict.source == Source::Fallback {
            return Vec::new();
        }
        let reservation = |check: &AdjustableCheck| Reservation {
            limiter: Arc::clone(self),
            at: LimitIndex { set: check_set.set, limit: check.limit },
            key_id: check.key_id.clone(),
            rule: verdict.replaced_rule(check.position).cloned(),
            reserved: check.reserved,
            counted_at_us: verdict
                .per_rule
                .get(check.position)
                .map_or(verdict.counted_at_us, |standing| standing.counted_at_us),
        };
        check_set.adjustable().iter().filter(|check| selects(check)).map(reservation).collect()
    }

    /// Returns the denial of a request for which there is no overflow service.
    pub(super) fn denial<B, R: From<Bytes>>(&self, report: &Report, request: &Request<B>) -> Response<R> {
        match &report.verdict {
            Some((check_set, verdict)) => {
                self.sets[usize::from(check_set.set)].deny(verdict, check_set.checked_rules(), request)
            }
            None => self.unavailable.to_response(request),
        }
    }

    /// Inserts a [`RequestMeter`] if a cost depends on the request's body.
    pub(super) fn insert_request_meter<B>(report: Option<&mut Report>, request: &mut Request<B>) {
        if let Some(extra) = report.and_then(|report| report.extra.as_mut())
            && let Some(meter) = Meter::take(&mut extra.reservations, Cost::meters_requests)
        {
            request.extensions_mut().insert(RequestMeter(meter));
        }
    }

    /// Replaces the path by that of [`OnLimit::Forward`], and marks the request.
    pub(super) fn reroute<B>(&self, request: &mut Request<B>) {
        let OnLimit::Forward(path) = &self.on_limit else { return };
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        let query = parts.path_and_query.as_ref().and_then(PathAndQuery::query);
        let target = query.map_or_else(|| path.to_string(), |query| format!("{path}?{query}"));
        parts.path_and_query = target.parse().ok();
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        request.extensions_mut().insert(Rerouted);
    }

    /// Adds the report's headers to a response, and settles costs that the response's head states.
    pub(super) fn apply_report<R>(&self, report: Report, response: &mut Response<R>) {
        if let Some((check_set, verdict)) = &report.verdict {
            let set = &self.sets[usize::from(check_set.set)];
            set.headers.append_checked(verdict, check_set.checked_rules(), response.headers_mut());
            Degraded::mark(verdict, response);
        }
        let Some(extra) = report.extra else { return };
        if let Some(value) = extra.would_deny.and_then(|names| HeaderValue::try_from(&*names).ok()) {
            response.headers_mut().insert(WOULD_DENY, value);
        }
        let mut reservations = extra.reservations;
        if let Some(meter) = Meter::take(&mut reservations, Cost::meters_responses) {
            response.extensions_mut().insert(ResponseMeter(meter));
        }
        for reservation in reservations {
            if let Some(tokens) = reservation.cost().of_response(response.headers()) {
                reservation.settle(tokens);
            }
        }
    }

    /// Notifies the hook of a verdict that was ready at once; `checks` are those of `check_set`.
    #[inline]
    pub(super) fn notify_ready(&self, check_set: &CheckSet, stage: Stage, verdict: &Verdict, checks: &[Check<'_>]) {
        let Some(hook) = &self.on_verdict else { return };
        self.for_each_event(check_set, stage, verdict, |at, event| {
            let position = check_set.rules().iter().position(|rule| usize::from(*rule) == at);
            hook(event, position.and_then(|position| checks.get(position)).map(|check| check.key.id));
        });
    }

    /// Notifies the hook of an awaited verdict. The keys are resolved again, since a waiting request keeps none.
    pub(super) fn notify_awaited<B>(
        &self,
        check_set: &CheckSet,
        stage: Stage,
        verdict: &Verdict,
        request: &Request<B>,
    ) {
        let Some(hook) = &self.on_verdict else { return };
        let limits = &self.sets[usize::from(check_set.set)].limits;
        self.for_each_event(check_set, stage, verdict, |at, event| {
            let mut buf = KeyBuf::new();
            hook(event, limits.get(at).and_then(|limit| limit.key_resolver.resolve(request, &mut buf)));
        });
    }

    /// Calls `notify` for every rule of an allowed request, and for the violated rules of a denied one, with the rule's
    /// position in its set.
    #[inline]
    fn for_each_event(
        &self,
        check_set: &CheckSet,
        stage: Stage,
        verdict: &Verdict,
        notify: impl Fn(usize, VerdictEvent),
    ) {
        let set = &self.sets[usize::from(check_set.set)];
        let notify = |at: usize, kind| {
            notify(at, VerdictEvent { rule: Some(set.first + at), kind, source: Some(verdict.source) })
        };
        let all = check_set.rules().iter().map(|at| usize::from(*at));
        let violated = || set.violated(verdict, check_set.rules());
        match (verdict.outcome, stage) {
            (Outcome::Allowed, _) => all.for_each(|at| notify(at, VerdictKind::Allowed)),
            (Outcome::StoreUnavailable { .. }, _) => all.for_each(|at| notify(at, VerdictKind::Unavailable)),
            (Outcome::Denied { .. } | Outcome::NeverAdmitted, Stage::Enforced) => {
                violated().for_each(|at| notify(at, VerdictKind::Denied));
            }
            (Outcome::Denied { .. } | Outcome::NeverAdmitted, Stage::Observed) => {
                violated().for_each(|at| notify(at, VerdictKind::Observed));
            }
        }
    }
}
