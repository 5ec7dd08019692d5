//! Requests to which the gateway responds itself before its limiters decide: CORS, limits of size, missing keys and the
//! gateway's own endpoints.

use std::sync::Arc;

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::request::Parts;
use http::{Method, Request};
use tollgate_filters::cors::{Policy, Verdict};

use crate::input::LogEntry;
use crate::keys::NeededKey;
use crate::log_facts::LogFacts;
use crate::log_route::LogRoute;
use tollgate_config::{Config, TrafficEndpoints};
use tollgate_routing::{Predicate, RequestView};

/// Reasons in the log of requests that `RequestSize` and `RequestHeaderSize` refused.
const SIZE_REASONS: [&str; 2] = ["request-too-large", "request-header-too-large"];
/// Reasons in the log of requests that ended at a CORS policy.
const CORS_REASONS: [&str; 2] = ["cors-preflight", "cors-refused"];

/// Reasons in the log of requests that limiters refused, since they had no usable key.
const KEY_REASONS: [&str; 2] = ["empty-key", "ambiguous-key"];

/// Finds requests to which the gateway responds before its limiters decide.
pub(super) struct LocalResponses {
    policies: Vec<(Predicate, Arc<Policy>)>,
    has_origin: bool,
    has_requested_method: bool,
    /// True if the log has the reasons of the gateway's own responses.
    has_reasons: bool,
    traffic_endpoints: Option<TrafficEndpoints>,
}

/// Answer to the question if a request reaches the limiters of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimiterReach {
    /// The limiters decide the request.
    Reached,
    /// The gateway responds before the limiters decide.
    NotReached,
    /// The log lacks the fields that decide it.
    Unknown,
}

impl LocalResponses {
    pub(super) fn new(config: &Config, log_facts: &LogFacts) -> Self {
        Self {
            policies: config.cors.by_path.clone(),
            has_origin: log_facts.has_header(ORIGIN.as_str()),
            has_requested_method: log_facts.has_header(ACCESS_CONTROL_REQUEST_METHOD.as_str()),
            has_reasons: log_facts.is_tollgate_log,
            traffic_endpoints: config.management.on_traffic.clone(),
        }
    }

    /// Returns true if an endpoint of the gateway itself serves requests for `path`.
    pub(super) fn is_traffic_endpoint(&self, path: &str) -> bool {
        self.traffic_endpoints.as_ref().is_some_and(|endpoints| endpoints.owns(path))
    }

    /// Returns true if there are CORS policies.
    pub(super) fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    /// Returns the limit of the simulation that follows from CORS policies; `None` without one.
    pub(super) fn note(&self) -> Option<&'static str> {
        if self.policies.is_empty() || self.has_origin && self.has_requested_method {
            return None;
        }
        Some(match (self.has_reasons, self.has_origin) {
            (true, _) => {
                "preflights and refusals by CORS are taken from the log, which holds if the policies are unchanged"
            }
            (false, true) => {
                "OPTIONS requests with `Origin` may be preflights, which reach no limiter: they are not simulated, since \
                 the log lacks `Access-Control-Request-Method` (--map header.NAME=FIELD)"
            }
            (false, false) => {
                "OPTIONS requests may be preflights, which reach no limiter: they are not simulated, and requests that \
                 CORS refuses are counted, since the log lacks `Origin` (--map header.NAME=FIELD)"
            }
        })
    }

    /// Decides if the request of `entry` reaches the limiters of `route`.
    pub(super) fn reach(
        &self,
        head: &Parts,
        view: &RequestView<'_>,
        entry: &LogEntry,
        route: &LogRoute,
    ) -> LimiterReach {
        let reason = entry.reason();
        let is_one_of = |reasons: &[&str]| reasons.iter().any(|name| name.as_bytes() == reason);
        if route.checks_size && is_one_of(&SIZE_REASONS) {
            return LimiterReach::NotReached;
        }
        // The limiter of a later rule refused a request that has decisions: the earlier rules counted it.
        if self.has_reasons
            && is_one_of(&KEY_REASONS)
            && entry.first_decided.is_none()
            && route.keys.iter().any(NeededKey::is_logged)
        {
            return LimiterReach::NotReached;
        }
        let Some((_, policy)) = self.policies.iter().find(|(path, _)| path.matches(view)) else {
            return LimiterReach::Reached;
        };
        let may_be_preflight = head.method == Method::OPTIONS && !self.has_requested_method;
        match (self.has_reasons, self.has_origin) {
            (true, _) if is_one_of(&CORS_REASONS) => LimiterReach::NotReached,
            (true, false) => LimiterReach::Reached,
            (_, true) if may_be_preflight && head.headers.contains_key(ORIGIN) => LimiterReach::Unknown,
            (_, true) => match policy.evaluate(&Request::from_parts(head.clone(), ()), "http") {
                Verdict::Allowed(_) => LimiterReach::Reached,
                Verdict::Preflight(_) | Verdict::Denied(..) => LimiterReach::NotReached,
            },
            (false, false) if may_be_preflight => LimiterReach::Unknown,
            (false, false) => LimiterReach::Reached,
        }
    }
}
