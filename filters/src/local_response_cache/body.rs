//! Storing a response body while it streams to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::cache::{ResponseCache, StoredResponse};
use super::key::Key;

pin_project! {
    /// A body that is copied while it streams. The copy is stored if the body ends normally. It is dropped if the body
    /// fails, is cancelled, has trailers or grows too large. Copying does not delay the client.
    #[derive(Debug)]
    pub struct StoringBody<B> {
        #[pin]
        inner: B,
        pending: Option<PendingResponse>,
    }
}

/// A response during the copying of its body.
#[derive(Debug)]
pub(super) struct PendingResponse {
    pub(super) cache: Arc<ResponseCache>,
    pub(super) resource: Key,
    pub(super) key: Key,
    /// The response without its body.
    pub(super) response: StoredResponse,
    pub(super) content_length: Option<u64>,
    pub(super) collected: BytesMut,
}

// === impl StoringBody ===

impl<B> StoringBody<B> {
    /// Wraps a body that is not stored.
    pub(super) fn plain(inner: B) -> Self {
        Self { inner, pending: None }
    }

    /// Returns true if the body is being copied.
    pub fn is_storing(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the inner body, without storing it.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl<B: Body<Data = Bytes>> StoringBody<B> {
    pub(super) fn new(inner: B, pending: PendingResponse) -> Self {
        if inner.is_end_stream() {
            pending.finish();
            return Self::plain(inner);
        }
        Self { inner, pending: Some(pending) }
    }
}

impl<B: Body<Data = Bytes>> Body for StoringBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        if let Some(pending) = this.pending {
            match &frame {
                Some(Ok(frame)) => match frame.data_ref() {
                    Some(data) if pending.append(data) => {
                        // A server may not poll again after the last frame.
                        if this.inner.is_end_stream()
                            && let Some(pending) = this.pending.take()
                        {
                            pending.finish();
                        }
                    }
                    _ => *this.pending = None,
                },
                Some(Err(_)) => *this.pending = None,
                None => {
                    if let Some(pending) = this.pending.take() {
                        pending.finish();
                    }
                }
            }
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

// === impl PendingResponse ===

impl PendingResponse {
    /// Copies `data`, since a small frame may keep a large buffer alive. Returns false if the body is too large.
    fn append(&mut self, data: &Bytes) -> bool {
        let bytes = (self.collected.len() + data.len()) as u64;
        let fits = bytes + self.response.weight() <= self.cache.max_response_bytes() && self.cache.reserve(data.len());
        if fits {
            self.collected.extend_from_slice(data);
        }
        fits
    }

    fn finish(mut self) {
        if self.content_length.is_none_or(|length| length == self.collected.len() as u64) {
            // An allocation of exactly the counted size.
            let body = Bytes::copy_from_slice(&self.collected);
            let without_body = self.response.clone();
            let response = StoredResponse { body, ..without_body };
            self.cache.insert(&self.resource, std::mem::take(&mut self.key), response);
        }
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        self.cache.release(self.collected.len());
    }
}
