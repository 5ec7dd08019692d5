//! Response future of layers that change responses.

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
