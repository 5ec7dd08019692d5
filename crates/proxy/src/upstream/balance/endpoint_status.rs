//! Knowledge about an endpoint, for operators.

use std::sync::Arc;

use crate::upstream::balance::attempt_record::AttemptFailure;
use crate::upstream::balance::endpoint::Endpoint;
use crate::upstream::balance::endpoint_set::{EndpointState, Health};

/// Endpoint with the knowledge about it.
#[derive(Clone, Debug)]
pub struct EndpointStatus {
    /// Endpoint.
    pub endpoint: Arc<Endpoint>,
    /// State.
    pub state: KnownState,
    /// Failed attempts since the latest response.
    pub consecutive_failures: u32,
    /// Latest failed attempt.
    pub last_failure: Option<AttemptFailure>,
    /// Reason of the latest health check of an endpoint that is down.
    pub check_error: Option<String>,
}

/// Known state of an endpoint: that of its selection, or the outcome of the latest attempts if nothing checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownState {
    /// Nothing checks it, and no attempt has ended yet. It gets requests.
    Unknown,
    /// Its health checks pass, or the latest attempt got a response.
    Up,
    /// Nothing checks it, and the latest attempts failed. It gets requests.
    Failing,
    /// It fails its health checks.
    Down,
    /// It failed requests and gets none for a while.
    Ejected,
    /// An operator drains it: it gets no new request.
    Drained,
}

impl EndpointStatus {
    /// Combines the state of the selection with the results of health checks and of attempts.
    pub(super) fn new(endpoint: &Arc<Endpoint>, state: EndpointState, health: Health) -> Self {
        let attempts = endpoint.attempts();
        let (consecutive_failures, last_failure) = (attempts.failures(), attempts.last_failure());
        let state = match (state, health) {
            (EndpointState::Unhealthy, _) => KnownState::Down,
            (EndpointState::Ejected, _) => KnownState::Ejected,
            (EndpointState::Drained, _) => KnownState::Drained,
            (EndpointState::Healthy, Health::Healthy) => KnownState::Up,
            (EndpointState::Healthy, Health::Unknown | Health::Unhealthy) => match consecutive_failures {
                0 if attempts.has_responded() => KnownState::Up,
                0 => KnownState::Unknown,
                _ => KnownState::Failing,
            },
        };
        let check_error = if state == KnownState::Down { attempts.check_error() } else { None };
        Self { endpoint: Arc::clone(endpoint), state, consecutive_failures, last_failure, check_error }
    }
}

impl KnownState {
    /// All states.
    pub const ALL: [Self; 6] = [Self::Unknown, Self::Up, Self::Failing, Self::Down, Self::Ejected, Self::Drained];

    /// Returns the name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Failing => "failing",
            Self::Down => "down",
            Self::Ejected => "ejected",
            Self::Drained => "drained",
        }
    }
}
