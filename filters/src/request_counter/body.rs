//! Body that counts its bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::tally::Tally;

pin_project! {
    /// Body that counts its data bytes as they are polled, without framing and trailers.
    #[derive(Debug)]
    pub struct Counted<B> {
        #[pin]
        inner: B,
        tally: Arc<Tally>,
        is_response: bool,
    }
}

impl<B> Counted<B> {
    pub(super) fn request(inner: B, tally: Arc<Tally>) -> Self {
        Self { inner, tally, is_response: false }
    }

    pub(super) fn response(inner: B, tally: Arc<Tally>) -> Self {
        Self { inner, tally, is_response: true }
    }

    /// Returns the inner body.
    pub fn get_ref(&self) -> &B {
        &self.inner
    }

    /// Returns the inner body, which is no longer counted.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl<B: Body> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let count = if *this.is_response { &this.tally.bytes_out } else { &this.tally.bytes_in };
            add(count, data.remaining() as u64);
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

/// Adds without an atomic add: only this body writes the count.
fn add(count: &AtomicU64, bytes: u64) {
    count.store(count.load(Relaxed).saturating_add(bytes), Relaxed);
}
