//! Response futures that several layers share.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

/// A change to a response that [`MapResponse`] makes.
pub trait ResponseMapper {
    /// Changes `response`.
    fn apply<R>(self, response: &mut Response<R>);
}

pin_project! {
    /// Resolves to the inner service's response after a change.
    #[derive(Debug)]
    pub struct MapResponse<F, M> {
        #[pin]
        inner: F,
        mapper: Option<M>,
    }
}

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

// === impl MapResponse ===

impl<F, M> MapResponse<F, M> {
    pub(crate) fn new(inner: F, mapper: impl Into<Option<M>>) -> Self {
        Self { inner, mapper: mapper.into() }
    }
}

impl<F, M, R, E> Future for MapResponse<F, M>
where
    F: Future<Output = Result<Response<R>, E>>,
    M: ResponseMapper,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(cx))?;
        if let Some(mapper) = this.mapper.take() {
            mapper.apply(&mut response);
        }
        Poll::Ready(Ok(response))
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
