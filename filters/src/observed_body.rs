//! Bodies that are observed while they stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// Observer of a body with data of the type `D`.
pub trait FrameObserver<D> {
    /// Observes `frame`, which `body` has just returned; `None` is its end.
    fn observe<B: Body<Data = D>>(&mut self, frame: Option<&Result<Frame<D>, B::Error>>, body: &B);
}

pin_project! {
    /// Body that an observer sees while it streams.
    #[derive(Debug)]
    pub struct ObservedBody<B, O> {
        #[pin]
        inner: B,
        pub(crate) observer: O,
    }
}

impl<B, O> ObservedBody<B, O> {
    pub(crate) fn new(inner: B, observer: O) -> Self {
        Self { inner, observer }
    }

    /// Returns the inner body.
    pub fn get_ref(&self) -> &B {
        &self.inner
    }

    /// Returns the inner body, which is no longer observed.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl<B: Body, O: FrameObserver<B::Data>> Body for ObservedBody<B, O> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        this.observer.observe(frame.as_ref(), this.inner.as_ref().get_ref());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
