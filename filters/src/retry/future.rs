//! The way of one request through its attempts.

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

use super::{Event, Policy};
use crate::replay::{Carried, Recording, ReplayBody, left_over};

pin_project! {
    /// Resolves to the answer of the last attempt.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<ReplayBody<B>>>,
    {
        #[pin]
        state: State<S::Future>,
        again: Option<Box<Again<S, B>>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        Calling { #[pin] inner: F },
        Pausing { pause: Option<Pin<Box<Sleep>>> },
    }
}

/// What it takes to run the request once more.
pub(super) struct Again<S, B> {
    service: S,
    head: Parts,
    recording: Recording<B>,
    policy: Arc<Policy>,
    retries: u32,
    pause: Duration,
    started: Instant,
    /// The body of the attempt to come.
    body: Option<ReplayBody<B>>,
    carried: Option<Carried>,
}

// === impl ResponseFuture ===

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<ReplayBody<B>>>,
{
    pub(super) fn new(inner: S::Future, again: Option<Box<Again<S, B>>>) -> Self {
        Self { state: State::Calling { inner }, again }
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
            let next = match this.state.as_mut().project() {
                StateProj::Calling { inner } => {
                    let mut response = ready!(inner.poll(cx))?;
                    let Some(again) = this.again.as_mut() else { return Poll::Ready(Ok(response)) };
                    let Some(pause) = again.after(&mut response) else {
                        if let Some(carried) = again.carried.take() {
                            carried.unload(&mut response);
                        }
                        return Poll::Ready(Ok(response));
                    };
                    State::Pausing { pause: (!pause.is_zero()).then(|| Box::pin(sleep(pause))) }
                }
                StateProj::Pausing { pause } => {
                    if let Some(pause) = pause {
                        ready!(pause.as_mut().poll(cx));
                    }
                    let Some(again) = this.again.as_mut() else { return Poll::Pending };
                    ready!(again.service.poll_ready(cx))?;
                    let Some(request) = again.request() else { return Poll::Pending };
                    State::Calling { inner: again.service.call(request) }
                }
            };
            this.state.set(next);
        }
    }
}

// === impl Again ===

impl<S, B: Body<Data = Bytes>> Again<S, B> {
    pub(super) fn new(service: S, head: Parts, recording: Recording<B>, policy: Arc<Policy>) -> Self {
        Self {
            service,
            head,
            recording,
            policy,
            retries: 0,
            pause: Duration::ZERO,
            started: Instant::now(),
            body: None,
            carried: None,
        }
    }

    /// The pause before the next attempt, or `None` when `response` is the answer. Otherwise takes from `response` what
    /// stays of it.
    fn after<R>(&mut self, response: &mut Response<R>) -> Option<Duration> {
        let policy = &self.policy;
        if !policy.settings.repeats(response) {
            return None;
        }
        let left = self.retries < policy.settings.retries;
        let pause = left.then(|| policy.pause(self.retries + 1, self.pause, self.started)).flatten();
        let Some((pause, body)) = pause.zip(self.recording.replay()) else {
            policy.tell(Event::GaveUp);
            return None;
        };
        if policy.budget.as_ref().is_some_and(|budget| !budget.withdraw()) {
            policy.tell(Event::OverBudget);
            return None;
        }
        policy.tell(Event::Retried);
        tracing::debug!(status = response.status().as_u16(), ?pause, "a request is sent again");
        self.retries += 1;
        self.pause = pause;
        self.body = Some(body);
        // What the attempt before could not hand over comes before what it left itself.
        let mut unclaimed = Response::new(());
        *unclaimed.headers_mut() = left_over(response);
        if let Some(carried) = self.carried.take() {
            carried.unload(&mut unclaimed);
        }
        let carried = Carried::new(std::mem::take(unclaimed.headers_mut()));
        self.head.extensions.insert(carried.clone());
        self.carried = Some(carried);
        Some(pause)
    }

    fn request(&mut self) -> Option<Request<ReplayBody<B>>> {
        Some(Request::from_parts(self.head.clone(), self.body.take()?))
    }
}
