//! Response future of the limiter.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

use super::body::SlotBody;
use super::limiter::Limiter;
use crate::context::Tunnel;
use crate::request_filter::RespondOr;
use tollgate_limiter::concurrency::Acquired;

type SlotFuture = Pin<Box<dyn Future<Output = Acquired> + Send>>;

/// Future of the inner service's response, which holds the slot, or of a refusal.
///
/// Dropping it frees the slot, or cancels the call that acquires it.
pub type ResponseFuture<S, B, R> = RespondOr<Admitted<S, B>, Response<SlotBody<R>>>;

pin_project! {
    /// Future of a request that is not refused at once.
    pub struct Admitted<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Waiting { waiting: Option<Box<Waiting<S, B>>> },
        Passing { #[pin] inner: S::Future, held: Option<(Arc<Limiter>, Acquired)> },
    }
}

/// Request that waits for its slot. Boxed, so that futures that never wait stay small.
struct Waiting<S, B> {
    slot: SlotFuture,
    service: S,
    request: Request<B>,
    limiter: Arc<Limiter>,
}

// === impl Admitted ===

impl<S, B> Admitted<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn passing(inner: S::Future, held: Option<(Arc<Limiter>, Acquired)>) -> Self {
        Self { state: State::Passing { inner, held } }
    }

    pub(super) fn waiting(slot: SlotFuture, service: S, request: Request<B>, limiter: Arc<Limiter>) -> Self {
        Self { state: State::Waiting { waiting: Some(Box::new(Waiting { slot, service, request, limiter })) } }
    }
}

impl<S, B, R> Future for Admitted<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Output = Result<Response<SlotBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProj::Passing { inner, held } => {
                    let response = ready!(inner.poll(cx));
                    let held = held.take();
                    return Poll::Ready(response.map(|response| hold(response, held)));
                }
                StateProj::Waiting { waiting } => {
                    let Some(request) = waiting.as_mut() else { return Poll::Pending };
                    let acquired = ready!(request.slot.as_mut().poll(cx));
                    let Some(request) = waiting.take() else { return Poll::Pending };
                    let Waiting { mut service, request, limiter, .. } = *request;
                    if let Some(response) = limiter.refusal(&acquired.verdict, &request) {
                        return Poll::Ready(Ok(response.map(|body| SlotBody::new(body, None))));
                    }
                    State::Passing { inner: service.call(request), held: Some((limiter, acquired)) }
                }
            };
            state.set(next);
        }
    }
}

/// Passes the slot to the response: to its body, or to the tunnel that it opens.
fn hold<R>(mut response: Response<R>, held: Option<(Arc<Limiter>, Acquired)>) -> Response<SlotBody<R>> {
    let Some((limiter, Acquired { verdict, mut slot })) = held else {
        return response.map(|body| SlotBody::new(body, None));
    };
    limiter.report(&verdict, &mut response);
    if let Some(tunnel) = response.extensions().get::<Tunnel>()
        && let Some(slot) = slot.take()
    {
        tunnel.hold(slot);
    }
    response.map(|body| SlotBody::new(body, slot))
}
