//! A response body that holds its request's slot.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use tollgate_limiter::concurrency::Lease;

pin_project! {
    /// A body with the slot of its request, which is free when the body has ended, failed or been dropped.
    #[derive(Debug)]
    pub struct Leased<B> {
        #[pin]
        inner: B,
        lease: Option<Lease>,
    }
}

impl<B> Leased<B> {
    /// `inner`, which holds `lease`.
    pub fn new(inner: B, lease: Option<Lease>) -> Self {
        Self { inner, lease }
    }

    /// Whether it holds a slot.
    pub fn holds(&self) -> bool {
        self.lease.is_some()
    }

    /// The body alone; the slot is free.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl<B: Body> Body for Leased<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        // A server need not ask again after the last frame, and may keep the body while it sends it.
        if !matches!(frame, Some(Ok(_))) || this.inner.is_end_stream() {
            *this.lease = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
