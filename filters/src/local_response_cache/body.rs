//! Storing a response body while it streams to the client.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};

use super::cache::{ResponseCache, StoredResponse};
use super::key::Key;
use crate::observed_body::{FrameObserver, ObservedBody};

/// A body that is copied while it streams. The copy is stored if the body ends normally. It is dropped if the body fails, is
/// cancelled, has trailers or grows too large. Copying does not delay the client.
pub type StoringBody<B> = ObservedBody<B, BodyCopy>;

/// Copy of a body; `None`: the body is not stored.
#[derive(Debug)]
pub struct BodyCopy(Option<PendingResponse>);

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
        Self::new(inner, BodyCopy(None))
    }

    /// Returns true if the body is being copied.
    pub fn is_storing(&self) -> bool {
        self.observer.0.is_some()
    }
}

impl<B: Body<Data = Bytes>> StoringBody<B> {
    pub(super) fn storing(inner: B, pending: PendingResponse) -> Self {
        if inner.is_end_stream() {
            pending.finish();
            return Self::plain(inner);
        }
        Self::new(inner, BodyCopy(Some(pending)))
    }
}

// === impl BodyCopy ===

impl FrameObserver<Bytes> for BodyCopy {
    fn observe<B: Body<Data = Bytes>>(&mut self, frame: Option<&Result<Frame<Bytes>, B::Error>>, body: &B) {
        let Some(mut pending) = self.0.take() else { return };
        match frame {
            None => pending.finish(),
            Some(Ok(frame)) if frame.data_ref().is_some_and(|data| pending.append(data)) => {
                // A server may not poll again after the last frame.
                if body.is_end_stream() {
                    pending.finish();
                } else {
                    self.0 = Some(pending);
                }
            }
            // It failed, has trailers or is too large.
            Some(_) => {}
        }
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
