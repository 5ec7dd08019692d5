//! Reports on endpoints: their status for operators, and their changes for the log.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::upstream::balance::endpoint::{AttemptFailure, Endpoint};
use crate::upstream::balance::endpoint_set::{EndpointState, Health};

/// Endpoint with the knowledge about it.
#[derive(Clone, Debug)]
pub struct EndpointStatus {
    /// Endpoint.
    pub endpoint: Arc<Endpoint>,
    /// State.
    pub state: ReportedState,
    /// Failed attempts since the latest response.
    pub consecutive_failures: u32,
    /// Latest failed attempt.
    pub last_failure: Option<AttemptFailure>,
    /// Reason of the latest health check of an endpoint that is down.
    pub check_error: Option<String>,
}

tollgate_limiter::labelled! {
    /// Known state of an endpoint: that of its selection, or the outcome of the latest attempts if nothing checks it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ReportedState {
        /// Nothing checks it, and no attempt has ended yet. It gets requests.
        Unknown = "unknown",
        /// Its health checks pass, or the latest attempt got a response.
        Up = "up",
        /// Nothing checks it, and the latest attempts failed. It gets requests.
        Failing = "failing",
        /// It fails its health checks.
        Down = "down",
        /// It failed requests and gets none for a while.
        Ejected = "ejected",
        /// An operator drains it: it gets no new request.
        Drained = "drained",
    }
}

impl EndpointStatus {
    /// Combines the state of the selection with the results of health checks and of attempts.
    pub(super) fn new(endpoint: &Arc<Endpoint>, state: EndpointState, health: Health) -> Self {
        let attempts = endpoint.attempts();
        let (consecutive_failures, last_failure) =
            (attempts.failures.load(Relaxed), attempts.last_failure.lock().clone());
        let state = match (state, health) {
            (EndpointState::Unhealthy, _) => ReportedState::Down,
            (EndpointState::Ejected, _) => ReportedState::Ejected,
            (EndpointState::Drained, _) => ReportedState::Drained,
            (EndpointState::Healthy, Health::Healthy) => ReportedState::Up,
            (EndpointState::Healthy, Health::Unknown | Health::Unhealthy) => match consecutive_failures {
                0 if attempts.has_responded.load(Relaxed) => ReportedState::Up,
                0 => ReportedState::Unknown,
                _ => ReportedState::Failing,
            },
        };
        let check_error = if state == ReportedState::Down { attempts.check_error.lock().clone() } else { None };
        Self { endpoint: Arc::clone(endpoint), state, consecutive_failures, last_failure, check_error }
    }
}

/// Change of an endpoint, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndpointChange {
    /// It was added to the list.
    Added,
    /// It was removed from the list.
    Removed,
    /// Its health checks pass.
    Healthy,
    /// Its health checks fail.
    Unhealthy,
    /// It was ejected for this time.
    Ejected(Duration),
    /// Its ejection ended.
    Recovering,
    /// An operator drains it for this time.
    Drained(Duration),
    /// Its draining ended.
    DrainEnded,
}

/// Changes with their endpoints.
pub(super) type EndpointChanges = Vec<(Arc<Endpoint>, EndpointChange)>;

/// Logs changes of the endpoints of `upstream`.
pub(super) fn log_changes(upstream: &str, changes: &[(Arc<Endpoint>, EndpointChange)]) {
    for (endpoint, change) in changes {
        match change {
            EndpointChange::Added => tracing::debug!(%upstream, %endpoint, "endpoint added"),
            EndpointChange::Removed => tracing::debug!(%upstream, %endpoint, "endpoint removed"),
            EndpointChange::Healthy => tracing::info!(%upstream, %endpoint, "endpoint healthy"),
            EndpointChange::Unhealthy => {} // logged by the health check, with the reason
            EndpointChange::Ejected(time) => {
                tracing::warn!(%upstream, %endpoint, ?time, "endpoint ejected: too many consecutive failures");
            }
            EndpointChange::Recovering => tracing::info!(%upstream, %endpoint, "endpoint recovering"),
            EndpointChange::Drained(time) => tracing::info!(%upstream, %endpoint, ?time, "endpoint drained"),
            EndpointChange::DrainEnded => tracing::info!(%upstream, %endpoint, "endpoint drain ended"),
        }
    }
}
