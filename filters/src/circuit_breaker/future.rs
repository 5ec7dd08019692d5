//! The future of a request and its fallback.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tower::Service;

use super::breaker::Permit;
use super::policy::{Failure, Policy};
use crate::fault::{CircuitOpenFallback, Fault};
use crate::replay::{CarriedHeaders, Recording, ReplayBody, take_added_headers};
use crate::request_filter::RespondOr;

/// Resolves to the response of the inner service, of the fallback, or of the breaker itself. Dropping the future cancels
/// the call, which then counts neither as a success nor as a failure.
pub type ResponseFuture<S, B, R> = RespondOr<Forwarded<S, B>, Response<R>>;

pin_project! {
    /// Future of a request to the inner service or to the fallback.
    pub struct Forwarded<S, B>
    where
        S: Service<Request<ReplayBody<B>>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B>
    where
        S: Service<Request<ReplayBody<B>>>,
    {
        Calling { #[pin] inner: S::Future, call: Option<Box<Call<S, B>>> },
        Fallback { service: S, request: Option<Request<ReplayBody<B>>>, substitution: Substitution },
        CallingFallback { #[pin] inner: S::Future, substitution: Substitution },
    }
}

/// The discarded response or refused call in whose place the fallback responds.
struct Substitution {
    /// Headers that filters added to the discarded response.
    carried: Option<CarriedHeaders>,
    /// True if the breaker did not permit the call.
    is_circuit_open: bool,
}

/// A permitted call.
pub(super) struct Call<S, B> {
    permit: Permit,
    time_limit: Option<Pin<Box<Sleep>>>,
    policy: Arc<Policy>,
    on_failure: OnFailure<S, B>,
}

/// The handling of a failed call.
pub(super) enum OnFailure<S, B> {
    /// Respond to the client.
    Respond { method: Method, accept: HeaderMap },
    /// Call the fallback if the body can be replayed.
    Fallback { service: S, head: Box<Parts>, recording: Option<Recording<B>> },
}

// === impl Call ===

impl<S, B> Call<S, B> {
    pub(super) fn new(permit: Permit, policy: Arc<Policy>, on_failure: OnFailure<S, B>) -> Self {
        let time_limit = policy.settings.time_limit.map(|limit| Box::pin(sleep(limit)));
        Self { permit, time_limit, policy, on_failure }
    }

    /// Completes past the time limit, which does not run while the call waits for the client. Such a call keeps no trial
    /// call from being made: its client may never send the rest of its body.
    fn poll_time_limit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limit = self.policy.settings.time_limit.unwrap_or_default();
        let Some(timer) = &mut self.time_limit else { return Poll::Pending };
        loop {
            ready!(timer.as_mut().poll(cx));
            let left = if self.permit.is_waiting() { limit } else { limit.saturating_sub(self.permit.elapsed()) };
            if left.is_zero() {
                return Poll::Ready(());
            }
            self.permit.give_up_place();
            timer.as_mut().reset(Instant::now() + left);
        }
    }

    /// Evaluates `response`, which is `None` past the time limit. Returns the final response, or the next state after a
    /// failure.
    fn finish<R: From<Bytes>>(self, response: Option<Response<R>>) -> ControlFlow<Response<R>, State<S, B>>
    where
        S: Service<Request<ReplayBody<B>>>,
    {
        let Self { permit, policy, on_failure, .. } = self;
        let Some(response) = response else {
            let failure = policy.timed_out(permit);
            return on_failure.handle(&policy, &failure, None);
        };
        match policy.evaluate(permit, &response) {
            None => ControlFlow::Break(response),
            Some(failure) => on_failure.handle(&policy, &failure, Some(response)),
        }
    }
}

// === impl OnFailure ===

impl<S, B> OnFailure<S, B> {
    pub(super) fn respond(method: Method, headers: &HeaderMap) -> Self {
        let mut accept = HeaderMap::new();
        for value in headers.get_all(ACCEPT) {
            accept.append(ACCEPT, value.clone());
        }
        Self::Respond { method, accept }
    }

    /// Returns the response after `failure`, or the state that calls the fallback. `response` is `None` past the time limit.
    fn handle<R>(
        self,
        policy: &Policy,
        failure: &Failure,
        response: Option<Response<R>>,
    ) -> ControlFlow<Response<R>, State<S, B>>
    where
        S: Service<Request<ReplayBody<B>>>,
        R: From<Bytes>,
    {
        let (method, accept) = match self {
            Self::Respond { method, accept } => (method, accept),
            Self::Fallback { service, head, recording } => match recording.and_then(|recording| recording.replay()) {
                Some(body) => {
                    let added = response.map(|mut response| take_added_headers(&mut response));
                    let request = Request::from_parts(*head, body);
                    return ControlFlow::Continue(fallback_state(service, failure, request, added));
                }
                None => {
                    tracing::debug!("fallback skipped: request body is too large to be replayed");
                    (head.method, head.headers)
                }
            },
        };
        ControlFlow::Break(match response {
            Some(response) => policy.resume(failure, response),
            None => policy.response(failure, &method, &accept),
        })
    }
}

fn fallback_state<S, B>(
    service: S,
    failure: &Failure,
    mut request: Request<ReplayBody<B>>,
    added_headers: Option<HeaderMap>,
) -> State<S, B>
where
    S: Service<Request<ReplayBody<B>>>,
{
    let carried = added_headers.filter(|headers| !headers.is_empty()).map(CarriedHeaders::new);
    if let Some(carried) = &carried {
        request.extensions_mut().insert(carried.clone());
    }
    request.extensions_mut().insert(failure.cause());
    let substitution = Substitution { carried, is_circuit_open: failure.fault() == Fault::CircuitOpen };
    State::Fallback { service, request: Some(request), substitution }
}

// === impl Forwarded ===

impl<S, B> Forwarded<S, B>
where
    S: Service<Request<ReplayBody<B>>>,
{
    pub(super) fn call(inner: S::Future, call: Call<S, B>) -> Self {
        Self { state: State::Calling { inner, call: Some(Box::new(call)) } }
    }

    pub(super) fn call_fallback(service: S, failure: &Failure, request: Request<ReplayBody<B>>) -> Self {
        Self { state: fallback_state(service, failure, request, None) }
    }
}

impl<S, B, R> Future for Forwarded<S, B>
where
    S: Service<Request<ReplayBody<B>>, Response = Response<R>>,
    B: Body<Data = Bytes>,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProj::Calling { inner, call } => {
                    let Some(running) = call.as_mut() else { return Poll::Pending };
                    let response = match inner.poll(cx)? {
                        Poll::Ready(response) => Some(response),
                        Poll::Pending => {
                            ready!(running.poll_time_limit(cx));
                            None
                        }
                    };
                    let Some(call) = call.take() else { return Poll::Pending };
                    match call.finish(response) {
                        ControlFlow::Break(response) => return Poll::Ready(Ok(response)),
                        ControlFlow::Continue(state) => state,
                    }
                }
                StateProj::Fallback { service, request, substitution } => {
                    ready!(service.poll_ready(cx))?;
                    let Some(request) = request.take() else { return Poll::Pending };
                    let substitution = Substitution { carried: substitution.carried.take(), ..*substitution };
                    State::CallingFallback { inner: service.call(request), substitution }
                }
                StateProj::CallingFallback { inner, substitution } => {
                    let mut response = ready!(inner.poll(cx))?;
                    if let Some(carried) = substitution.carried.take() {
                        carried.prepend_to(&mut response);
                    }
                    if substitution.is_circuit_open {
                        response.extensions_mut().insert(CircuitOpenFallback);
                    }
                    return Poll::Ready(Ok(response));
                }
            };
            state.set(next);
        }
    }
}
