//! Report of a forwarded request: response headers, costs to settle, delay.

use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, Uri};

use super::check_set::{AdjustableCheck, CheckSet};
use super::cost::Cost;
use super::limiter::Limiter;
use super::limits::OnLimit;
use super::settlement::{Meter, PacingDelay, RequestMeter, Reservation, ResponseMeter};
use crate::context::{Degraded, Rerouted};
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

const WOULD_DENY: HeaderName = HeaderName::from_static("x-ratelimit-would-deny");

/// Data for the response's headers, and reservations to settle.
#[derive(Default)]
pub(super) struct Report {
    /// Boxed: a report is moved several times.
    pub(super) verdict: Option<Box<(CheckSet, Verdict)>>,
    pub(super) extra: Option<Box<ExtraReport>>,
}

/// Parts of a report that few requests have.
#[derive(Default)]
pub(super) struct ExtraReport {
    would_deny: Option<Arc<str>>,
    reservations: Vec<Reservation>,
    pub(super) delay: Option<PacingDelay>,
}

impl Report {
    /// Returns the report, or `None` if it is empty.
    #[inline]
    pub(super) fn or_none(self) -> Option<Self> {
        (self.verdict.is_some() || self.extra.is_some()).then_some(self)
    }

    /// Inserts a [`RequestMeter`] if a cost depends on the request's body.
    pub(super) fn insert_request_meter<B>(&mut self, request: &mut Request<B>) {
        if let Some(extra) = &mut self.extra
            && let Some(meter) = Meter::take(&mut extra.reservations, Cost::meters_requests)
        {
            request.extensions_mut().insert(RequestMeter(meter));
        }
    }

    fn add_reservations(&mut self, reservations: Vec<Reservation>) {
        if !reservations.is_empty() {
            self.extra.get_or_insert_default().reservations.extend(reservations);
        }
    }
}

impl Limiter {
    /// Adds the enforced rules, which allow the request. Nothing is added if there is nothing to report or to settle.
    #[inline]
    pub(super) fn report_allowed(self: &Arc<Self>, report: &mut Report, check_set: CheckSet, verdict: Verdict) {
        let rules = self.rules_of(&check_set);
        if rules.varies {
            report.add_reservations(self.reservations(&check_set, &verdict, |check| check.settles));
            if !verdict.delay.is_zero() {
                let slots = self.reservations(&check_set, &verdict, |check| check.paces);
                report.extra.get_or_insert_default().delay = Some(PacingDelay { delay: verdict.delay, slots });
            }
        }
        if rules.headers.included() || verdict.source == Source::Fallback {
            report.verdict = Some(Box::new((check_set, verdict)));
        }
    }

    /// Adds the verdict of observed rules, which neither refuse nor delay the request.
    pub(super) fn report_observed(self: &Arc<Self>, report: &mut Report, check_set: &CheckSet, verdict: &Verdict) {
        match verdict.outcome {
            Outcome::Allowed => {
                report.add_reservations(self.reservations(check_set, verdict, |check| check.settles));
            }
            Outcome::StoreUnavailable { .. } => {}
            Outcome::Denied { .. } | Outcome::NeverAdmitted => {
                let rules = self.rules_of(check_set);
                let names: Vec<&str> =
                    rules.denying(verdict, check_set.rules()).map(|limit| &*rules.limits[limit].name).collect();
                tracing::debug!(rules = names.join(","), "request over observed limit");
                if self.would_deny_header {
                    report.extra.get_or_insert_default().would_deny = Some(names.join(", ").into());
                }
            }
        }
    }

    /// Returns no reservation for a verdict of the fallback: the store has none to correct.
    fn reservations(
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
            set: check_set.set,
            limit: check_set.rules()[check.position],
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
    pub(super) fn denial<B>(&self, report: &Report, request: &Request<B>) -> Response<Bytes> {
        match report.verdict.as_deref() {
            Some((check_set, verdict)) => self.rules_of(check_set).deny(verdict, check_set.checked_rules(), request),
            None => self.unavailable.to_response(request),
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
        if let Some((check_set, verdict)) = report.verdict.as_deref() {
            let headers = &self.rules_of(check_set).headers;
            headers.append_checked(verdict, check_set.checked_rules(), response.headers_mut());
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
}
