//! The way of one request past the breaker.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower::Service;

use super::breaker::Permit;
use super::failure::{Failure, Judge};
use crate::fault::FallbackCause;
use crate::replay::{Carried, Recording, ReplayBody, left_over};

pin_project! {
    /// Resolves to the inner service's response, the fallback's, or what stands for them. Dropping it gives the call up,
    /// which then counts neither as a success nor as a failure.
    pub struct ResponseFuture<S, B, R>
    where
        S: Service<Request<ReplayBody<B>>>,
    {
        #[pin]
        state: State<S, B, R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B, R>
    where
        S: Service<Request<ReplayBody<B>>>,
    {
        Answered { response: Option<Response<R>> },
        Calling { #[pin] inner: S::Future, call: Option<Box<Call<S, B>>> },
        Fallback { service: S, request: Option<Request<ReplayBody<B>>>, carried: Option<Carried> },
        FallingBack { #[pin] inner: S::Future, carried: Option<Carried> },
    }
}

/// A call that was let through.
struct Call<S, B> {
    permit: Permit,
    limit: Option<Pin<Box<Sleep>>>,
    way: Way<S, B>,
}

/// What is left of the request for when its call fails.
pub(super) struct Way<S, B> {
    judge: Arc<Judge>,
    end: End<S, B>,
}

enum End<S, B> {
    /// The answer says so.
    Straight { method: Method, accept: HeaderMap },
    /// The fallback is asked, if the body can be read again.
    Fallback { service: S, head: Box<Parts>, recording: Option<Recording<B>> },
}

// === impl Way ===

impl<S, B> Way<S, B> {
    pub(super) fn straight(method: Method, headers: &HeaderMap, judge: Arc<Judge>) -> Self {
        let mut accept = HeaderMap::new();
        for value in headers.get_all(ACCEPT) {
            accept.append(ACCEPT, value.clone());
        }
        Self { judge, end: End::Straight { method, accept } }
    }

    pub(super) fn with_fallback(service: S, head: Parts, recording: Option<Recording<B>>, judge: Arc<Judge>) -> Self {
        Self { judge, end: End::Fallback { service, head: Box::new(head), recording } }
    }

    /// The answer or the fallback, after a `failure` that came with `response`, unless it was that there is none.
    fn after<R: From<Bytes>>(self, failure: &Failure, response: Option<Response<R>>) -> State<S, B, R>
    where
        S: Service<Request<ReplayBody<B>>>,
    {
        let (method, accept) = match self.end {
            End::Straight { method, accept } => (method, accept),
            End::Fallback { service, head, recording } => match recording.and_then(|recording| recording.replay()) {
                Some(body) => {
                    let left = response.map(|mut response| left_over(&mut response));
                    return falling_back(service, failure.cause(), Request::from_parts(*head, body), left);
                }
                None => {
                    tracing::debug!("no fallback for a request whose body is too large to be sent again");
                    (head.method, head.headers)
                }
            },
        };
        State::Answered {
            response: Some(match response {
                Some(response) => self.judge.resume(failure, response),
                None => self.judge.answer(failure, &method, &accept),
            }),
        }
    }
}

fn falling_back<S, B, R>(
    service: S,
    cause: FallbackCause,
    mut request: Request<ReplayBody<B>>,
    left: Option<HeaderMap>,
) -> State<S, B, R>
where
    S: Service<Request<ReplayBody<B>>>,
{
    let carried = left.filter(|left| !left.is_empty()).map(Carried::new);
    if let Some(carried) = &carried {
        request.extensions_mut().insert(carried.clone());
    }
    request.extensions_mut().insert(cause);
    State::Fallback { service, request: Some(request), carried }
}

// === impl ResponseFuture ===

impl<S, B, R> ResponseFuture<S, B, R>
where
    S: Service<Request<ReplayBody<B>>>,
{
    pub(super) fn answered(response: Response<R>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }

    pub(super) fn calling(inner: S::Future, permit: Permit, way: Way<S, B>) -> Self {
        let limit = way.judge.settings().time_limit.map(|limit| Box::pin(sleep(limit)));
        Self { state: State::Calling { inner, call: Some(Box::new(Call { permit, limit, way })) } }
    }

    pub(super) fn falling_back(
        service: S,
        cause: FallbackCause,
        request: Request<ReplayBody<B>>,
        left: Option<HeaderMap>,
    ) -> Self {
        Self { state: falling_back(service, cause, request, left) }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B, R>
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
                StateProj::Answered { response } => {
                    return match response.take() {
                        Some(response) => Poll::Ready(Ok(response)),
                        None => Poll::Pending, // polled after it was done
                    };
                }
                StateProj::Calling { inner, call } => {
                    let Some(running) = call.as_mut() else { return Poll::Pending };
                    let response = match inner.poll(cx) {
                        Poll::Ready(response) => Some(response?),
                        Poll::Pending => {
                            let Some(limit) = running.limit.as_mut() else { return Poll::Pending };
                            ready!(limit.as_mut().poll(cx));
                            None
                        }
                    };
                    let Some(Call { permit, way, .. }) = call.take().map(|call| *call) else {
                        return Poll::Pending;
                    };
                    match response {
                        Some(response) => match way.judge.judge(permit, &response) {
                            None => return Poll::Ready(Ok(response)),
                            Some(failure) => way.after(&failure, Some(response)),
                        },
                        None => {
                            let failure = way.judge.too_late(permit);
                            way.after(&failure, None)
                        }
                    }
                }
                StateProj::Fallback { service, request, carried } => {
                    ready!(service.poll_ready(cx))?;
                    let Some(request) = request.take() else { return Poll::Pending };
                    State::FallingBack { inner: service.call(request), carried: carried.take() }
                }
                StateProj::FallingBack { inner, carried } => {
                    let mut response = ready!(inner.poll(cx))?;
                    if let Some(carried) = carried.take() {
                        carried.unload(&mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
            };
            state.set(next);
        }
    }
}
