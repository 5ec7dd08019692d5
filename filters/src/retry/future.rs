//! The future of a request and its attempts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tower::Service;
use tower::retry::budget::Budget as _;

use super::{Delays, Policy, RetryEvent};
use crate::context::Attempts;
use crate::replay::{CarriedHeaders, Recording, ReplayBody, take_added_headers};

pin_project! {
    /// Resolves to the response of the last attempt.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<ReplayBody<B>>>,
    {
        #[pin]
        state: State<S::Future>,
        next_attempt: Option<Box<NextAttempt<S, B>>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        Calling { #[pin] inner: F },
        Waiting { delay: Option<Pin<Box<Sleep>>> },
    }
}

/// State for further attempts.
pub(super) struct NextAttempt<S, B> {
    service: S,
    head: Parts,
    recording: Recording<B>,
    policy: Arc<Policy>,
    attempts: Attempts,
    /// The backoff before the current attempt.
    backoff: Duration,
    started: Instant,
    /// The body of the next attempt.
    body: Option<ReplayBody<B>>,
    carried: Option<CarriedHeaders>,
}

// === impl ResponseFuture ===

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<ReplayBody<B>>>,
{
    pub(super) fn new(inner: S::Future, next_attempt: Option<Box<NextAttempt<S, B>>>) -> Self {
        Self { state: State::Calling { inner }, next_attempt }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<ReplayBody<B>>, Response = Response<R>>,
    B: Body<Data = Bytes>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let state = match this.state.as_mut().project() {
                StateProj::Calling { inner } => {
                    let mut response = ready!(inner.poll(cx))?;
                    let Some(next) = this.next_attempt.as_mut() else { return Poll::Ready(Ok(response)) };
                    let Some(delay) = next.prepare(&mut response) else {
                        if let Some(carried) = next.carried.take() {
                            carried.prepend_to(&mut response);
                        }
                        return Poll::Ready(Ok(response));
                    };
                    State::Waiting { delay: (!delay.is_zero()).then(|| Box::pin(sleep(delay))) }
                }
                StateProj::Waiting { delay } => {
                    if let Some(delay) = delay {
                        ready!(delay.as_mut().poll(cx));
                    }
                    let Some(next) = this.next_attempt.as_mut() else { return Poll::Pending };
                    ready!(next.service.poll_ready(cx))?;
                    let Some(request) = next.request() else { return Poll::Pending };
                    State::Calling { inner: next.service.call(request) }
                }
            };
            this.state.set(state);
        }
    }
}

// === impl NextAttempt ===

impl<S, B: Body<Data = Bytes>> NextAttempt<S, B> {
    /// Keeps what a retry needs. Attempts of an outer layer at the same request count as well.
    pub(super) fn new(service: S, head: &mut Parts, recording: Recording<B>, policy: Arc<Policy>) -> Self {
        let attempts = head.extensions.get_or_insert_default::<Attempts>().clone();
        Self {
            service,
            head: head.clone(),
            recording,
            policy,
            attempts,
            backoff: Duration::ZERO,
            started: Instant::now(),
            body: None,
            carried: None,
        }
    }

    /// Prepares the next attempt and returns the delay before it; `None` if `response` is final. Takes the headers that
    /// filters added to a discarded `response`.
    fn prepare<R>(&mut self, response: &mut Response<R>) -> Option<Duration> {
        let policy = &self.policy;
        if !policy.settings.should_retry(response) {
            return None;
        }
        let retries = self.attempts.retries();
        let has_retries = retries < policy.settings.retries;
        let delays = || policy.delays_before(retries + 1, self.backoff, self.started, response.headers());
        let delays = has_retries.then(delays).flatten();
        let Some((Delays { backoff, wait }, body)) = delays.zip(self.recording.replay()) else {
            policy.notify(RetryEvent::LimitReached);
            return None;
        };
        if policy.budget.as_ref().is_some_and(|budget| !budget.withdraw()) {
            policy.notify(RetryEvent::BudgetExhausted);
            return None;
        }
        policy.notify(RetryEvent::Retried);
        tracing::debug!(status = response.status().as_u16(), delay = ?wait, "retrying request");
        self.attempts.note_retry();
        self.backoff = backoff;
        self.body = Some(body);
        // Headers that the previous attempt did not take precede those that filters added to its response.
        let mut unclaimed = Response::new(());
        *unclaimed.headers_mut() = take_added_headers(response);
        if let Some(carried) = self.carried.take() {
            carried.prepend_to(&mut unclaimed);
        }
        let carried = CarriedHeaders::new(std::mem::take(unclaimed.headers_mut()));
        self.head.extensions.insert(carried.clone());
        self.carried = Some(carried);
        Some(wait)
    }

    fn request(&mut self) -> Option<Request<ReplayBody<B>>> {
        Some(Request::from_parts(self.head.clone(), self.body.take()?))
    }
}
