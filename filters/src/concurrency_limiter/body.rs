//! Response body that holds its request's slot.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use tollgate_limiter::concurrency::HeldSlot;

pin_project! {
    /// Body that holds the slot of its request, and frees it when the body has ended, failed or been dropped.
    #[derive(Debug)]
    pub struct SlotBody<B> {
        #[pin]
        inner: B,
        slot: Option<HeldSlot>,
    }
}

impl<B> SlotBody<B> {
    /// Creates a body that holds `slot`.
    pub fn new(inner: B, slot: Option<HeldSlot>) -> Self {
        Self { inner, slot }
    }

    /// Returns true if it holds a slot.
    pub fn has_slot(&self) -> bool {
        self.slot.is_some()
    }

    /// Frees the slot, and returns the inner body.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl<B: Body> Body for SlotBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        // A server may stop polling after the last frame, and keep the body while it sends that frame.
        if !matches!(frame, Some(Ok(_))) || this.inner.is_end_stream() {
            *this.slot = None;
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
