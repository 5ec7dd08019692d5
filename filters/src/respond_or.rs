//! Response future of layers that either respond themselves or forward the request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// Resolves to a response of the layer itself, or to that of the inner service.
    #[derive(Debug)]
    pub struct RespondOr<F, R> {
        #[pin]
        state: State<F, R>,
    }
}

pin_project! {
    #[project = StateProj]
    #[derive(Debug)]
    enum State<F, R> {
        Respond { response: Option<Response<R>> },
        Forward { #[pin] inner: F },
    }
}

// === impl RespondOr ===

impl<F, R> RespondOr<F, R> {
    /// Resolves to `response`.
    pub(crate) fn respond(response: Response<R>) -> Self {
        Self { state: State::Respond { response: Some(response) } }
    }

    /// Resolves to the response of `inner`.
    pub(crate) fn forward(inner: F) -> Self {
        Self { state: State::Forward { inner } }
    }
}

impl<F, R, E> Future for RespondOr<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Forward { inner } => inner.poll(cx),
            StateProj::Respond { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending, // polled after completion
            },
        }
    }
}
