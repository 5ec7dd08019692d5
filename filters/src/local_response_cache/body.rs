//! An answer's body that is kept while it goes to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::cache::{Answer, ResponseCache};
use super::key::Key;

pin_project! {
    /// A body of which a copy is gathered as its pieces pass. The copy is kept when the body has ended as it should,
    /// and dropped when it fails, is given up, has trailers or grows too large. Nobody waits for it.
    #[derive(Debug)]
    pub struct Filling<B> {
        #[pin]
        inner: B,
        fill: Option<Fill>,
    }
}

/// What is gathered, and where it goes.
#[derive(Debug)]
pub(super) struct Fill {
    pub(super) cache: Arc<ResponseCache>,
    pub(super) resource: Key,
    pub(super) key: Key,
    /// The answer but for its body.
    pub(super) answer: Answer,
    /// The length that the head promised.
    pub(super) length: Option<u64>,
    pub(super) gathered: BytesMut,
}

// === impl Filling ===

impl<B> Filling<B> {
    /// A body of which nothing is kept.
    pub(super) fn plain(inner: B) -> Self {
        Self { inner, fill: None }
    }

    /// Whether something is gathered.
    pub fn fills(&self) -> bool {
        self.fill.is_some()
    }

    /// The body alone; nothing is kept.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl<B: Body<Data = Bytes>> Filling<B> {
    pub(super) fn new(inner: B, fill: Fill) -> Self {
        if inner.is_end_stream() {
            fill.finish();
            return Self::plain(inner);
        }
        Self { inner, fill: Some(fill) }
    }
}

impl<B: Body<Data = Bytes>> Body for Filling<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        if let Some(fill) = this.fill {
            match &frame {
                Some(Ok(frame)) => match frame.data_ref() {
                    Some(data) if fill.gather(data) => {
                        // A server need not ask again after the last frame.
                        if this.inner.is_end_stream()
                            && let Some(fill) = this.fill.take()
                        {
                            fill.finish();
                        }
                    }
                    _ => *this.fill = None,
                },
                Some(Err(_)) => *this.fill = None,
                None => {
                    if let Some(fill) = this.fill.take() {
                        fill.finish();
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

// === impl Fill ===

impl Fill {
    /// Copies `data`: a piece that is kept as it is would keep the buffer that it was read into.
    fn gather(&mut self, data: &Bytes) -> bool {
        let bytes = (self.gathered.len() + data.len()) as u64;
        let fits = bytes + self.answer.weight() <= self.cache.max_answer_bytes() && self.cache.reserve(data.len());
        if fits {
            self.gathered.extend_from_slice(data);
        }
        fits
    }

    fn finish(mut self) {
        if self.length.is_none_or(|length| length == self.gathered.len() as u64) {
            // Exactly as large as it is counted.
            let body = Bytes::copy_from_slice(&self.gathered);
            let empty = self.answer.clone();
            let answer = Answer { body, ..empty };
            self.cache.keep(&self.resource, std::mem::take(&mut self.key), answer);
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.cache.release(self.gathered.len());
    }
}
