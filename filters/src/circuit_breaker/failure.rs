//! What counts as a failure, what is answered for it, and what Spring would have thrown.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::Settings;
use super::breaker::{Breaker, NotPermitted, Permit};
use super::machine::State;
use crate::context::LocalReply;
use crate::fault::{FallbackCause, Fault, JavaException};
use crate::replay::{left_over, mark_received};
use crate::reply::Reply;

/// A breaker, and how what it lets through is judged.
pub(super) struct Judge {
    breaker: Arc<Breaker>,
    settings: Settings,
    open: Reply,
    too_late: Reply,
}

/// Why there is no good answer.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Not let through.
    NotPermitted { breaker: Arc<str>, refused: NotPermitted },
    /// No answer in time.
    TooLate(Duration),
    /// A status that is listed.
    Status(StatusCode),
    /// The upstream's.
    Fault(Fault),
}

// === impl Judge ===

impl Judge {
    pub(super) fn new(breaker: Arc<Breaker>, settings: Settings) -> Self {
        let reply = |status, reason| Reply::problem(status, reason, "about:blank", None, "");
        Self {
            breaker,
            settings,
            open: reply(StatusCode::SERVICE_UNAVAILABLE, "circuit-open"),
            too_late: reply(StatusCode::GATEWAY_TIMEOUT, "time-limit"),
        }
    }

    pub(super) fn breaker(&self) -> &Arc<Breaker> {
        &self.breaker
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn not_permitted(&self, refused: NotPermitted) -> Failure {
        Failure::NotPermitted { breaker: Arc::clone(self.breaker.name()), refused }
    }

    /// Tells the breaker how the call of `permit` ended, and why `response` is no good answer, if it is none.
    pub(super) fn judge<R>(&self, permit: Permit, response: &Response<R>) -> Option<Failure> {
        let status = response.status();
        let failure = if self.settings.failure_statuses.contains(&status) {
            Some(Failure::Status(status))
        } else {
            response.extensions().get::<Fault>().copied().map(Failure::Fault)
        };
        match &failure {
            Some(failure) => self.count(permit, failure),
            // A filter's own answer: the permit is given back.
            None if LocalReply::marks(response) => drop(permit),
            None => permit.ended(false),
        }
        failure
    }

    pub(super) fn too_late(&self, permit: Permit) -> Failure {
        let failure = Failure::TooLate(self.settings.time_limit.unwrap_or_default());
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

    /// What is answered where there is no fallback and no answer that could stand.
    pub(super) fn answer<R: From<Bytes>>(
        &self,
        failure: &Failure,
        method: &Method,
        headers: &HeaderMap,
    ) -> Response<R> {
        let mut response = match failure {
            Failure::NotPermitted { refused, .. } => {
                let mut response = self.open.for_client(method, headers);
                let wait = refused.wait.as_secs() + u64::from(refused.wait.subsec_nanos() > 0);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.max(1)));
                response
            }
            _ => self.too_late.for_client(method, headers),
        };
        mark_received(&mut response);
        response.extensions_mut().insert(failure.fault());
        response
    }

    /// What becomes of `response`, which is none to be glad of, where there is no fallback.
    pub(super) fn resume<R: From<Bytes>>(&self, failure: &Failure, mut response: Response<R>) -> Response<R> {
        match failure {
            Failure::Fault(_) if self.settings.resume_without_error => {
                let mut resumed = Response::new(R::from(Bytes::new()));
                *resumed.headers_mut() = left_over(&mut response);
                resumed
            }
            _ => response,
        }
    }
}

// === impl Failure ===

impl Failure {
    fn fault(&self) -> Fault {
        match self {
            Self::NotPermitted { .. } => Fault::CircuitOpen,
            Self::TooLate(_) => Fault::TimeLimit,
            Self::Status(_) => Fault::FailureStatus,
            Self::Fault(fault) => *fault,
        }
    }

    /// What the fallback is told.
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
            Self::NotPermitted { breaker, refused } => {
                let state = if refused.state == State::HalfOpen { "HALF_OPEN" } else { "OPEN" };
                format!("CircuitBreaker '{breaker}' is {state} and does not permit further calls")
            }
            Self::TooLate(limit) => {
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
