//! Classification of responses: failures, the responses to them, and the exceptions that Spring would have thrown.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::Settings;
use super::breaker::{Breaker, NotPermitted, Permit};
use super::state_machine::State;
use crate::context::LocalReply;
use crate::fault::{FallbackCause, Fault, JavaException};
use crate::replay::{mark_received, take_added_headers};
use crate::reply::Reply;

/// A breaker, and the classification of its calls.
pub(super) struct Policy {
    pub(super) breaker: Arc<Breaker>,
    pub(super) settings: Settings,
    circuit_open: Reply,
    time_limit: Reply,
}

/// The reason for a failed call.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The breaker did not permit the call.
    NotPermitted { breaker: Arc<str>, reason: NotPermitted },
    /// The time limit has passed.
    TimedOut(Duration),
    /// A listed status.
    Status(StatusCode),
    /// A fault of the upstream.
    Fault(Fault),
}

// === impl Policy ===

impl Policy {
    pub(super) fn new(breaker: Arc<Breaker>, settings: Settings) -> Self {
        let reply = |status, reason| Reply::problem(status, reason, "about:blank", None, "");
        Self {
            breaker,
            settings,
            circuit_open: reply(StatusCode::SERVICE_UNAVAILABLE, "circuit-open"),
            time_limit: reply(StatusCode::GATEWAY_TIMEOUT, "time-limit"),
        }
    }

    pub(super) fn not_permitted(&self, reason: NotPermitted) -> Failure {
        Failure::NotPermitted { breaker: Arc::clone(self.breaker.name()), reason }
    }

    /// Reports the outcome of the call to the breaker. Returns the failure if `response` is one.
    pub(super) fn evaluate<R>(&self, permit: Permit, response: &Response<R>) -> Option<Failure> {
        let status = response.status();
        let failure = if self.settings.failure_statuses.contains(&status) {
            Some(Failure::Status(status))
        } else {
            response.extensions().get::<Fault>().copied().map(Failure::Fault)
        };
        match &failure {
            Some(failure) => self.count(permit, failure),
            // A local response is not counted.
            None if LocalReply::marks(response) => drop(permit),
            None => permit.ended(false),
        }
        failure
    }

    pub(super) fn timed_out(&self, permit: Permit) -> Failure {
        let failure = Failure::TimedOut(self.settings.time_limit.unwrap_or_default());
        self.count(permit, &failure);
        failure
    }

    fn count(&self, permit: Permit, failure: &Failure) {
        let fault = failure.fault();
        if self.settings.ignored.contains(fault) {
            drop(permit);
        } else {
            permit.ended(self.settings.recorded.contains(fault));
        }
    }

    /// Creates the response to a failure without a fallback and without a response of the upstream.
    pub(super) fn response<R: From<Bytes>>(
        &self,
        failure: &Failure,
        method: &Method,
        headers: &HeaderMap,
    ) -> Response<R> {
        let mut response = match failure {
            Failure::NotPermitted { reason, .. } => {
                let mut response = self.circuit_open.for_client(method, headers);
                let wait = reason.wait.as_secs() + u64::from(reason.wait.subsec_nanos() > 0);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.max(1)));
                response
            }
            _ => self.time_limit.for_client(method, headers),
        };
        mark_received(&mut response);
        response.extensions_mut().insert(failure.fault());
        response
    }

    /// Returns the response to a failure without a fallback: `response`, or an empty 200.
    pub(super) fn resume<R: From<Bytes>>(&self, failure: &Failure, mut response: Response<R>) -> Response<R> {
        match failure {
            Failure::Fault(_) if self.settings.resume_without_error => {
                let mut resumed = Response::new(R::from(Bytes::new()));
                *resumed.headers_mut() = take_added_headers(&mut response);
                resumed
            }
            _ => response,
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(super) fn fault(&self) -> Fault {
        match self {
            Self::NotPermitted { .. } => Fault::CircuitOpen,
            Self::TimedOut(_) => Fault::TimeLimit,
            Self::Status(_) => Fault::FailureStatus,
            Self::Fault(fault) => *fault,
        }
    }

    /// Returns the cause for the fallback.
    pub(super) fn cause(&self) -> FallbackCause {
        let (mut execution, mut root) = self.fault().exceptions();
        if let Some(message) = self.message() {
            execution = JavaException { message: message.into(), ..execution };
            root = JavaException { message: execution.message.clone(), ..root };
        }
        FallbackCause { execution, root }
    }

    fn message(&self) -> Option<String> {
        Some(match self {
            Self::NotPermitted { breaker, reason } => {
                let state = if reason.state == State::HalfOpen { "HALF_OPEN" } else { "OPEN" };
                format!("CircuitBreaker '{breaker}' is {state} and does not permit further calls")
            }
            Self::TimedOut(limit) => {
                let millis = limit.as_millis();
                format!(
                    "Did not observe any item or terminal signal within {millis}ms in 'circuitBreaker' (and no fallback has been configured)"
                )
            }
            Self::Status(status) => {
                let name = status.canonical_reason().unwrap_or_default().to_uppercase().replace([' ', '-'], "_");
                format!("{} {name}", status.as_u16()).trim_end().to_owned()
            }
            Self::Fault(_) => return None,
        })
    }
}
