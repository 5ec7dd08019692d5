//! Reading a recorded body.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use thiserror::Error;

/// A recorded body, shared by the readers of all attempts.
#[derive(Debug)]
pub(super) struct SharedBody<B> {
    inner: Pin<Box<B>>,
    /// Number of the current attempt. Only its reader may read.
    attempt: u32,
    /// The task that waits for the next frame. It is woken if another attempt supersedes it.
    waker: Option<Waker>,
    recorded: Vec<u8>,
    max_bytes: usize,
    trailers: Option<HeaderMap>,
    has_ended: bool,
    /// True if the body cannot be replayed: it exceeded `max_bytes`, or failed.
    is_incomplete: bool,
}

/// The reader of one attempt. An earlier attempt may still be sending when the next one starts.
#[derive(Debug)]
pub(super) struct Reader<B> {
    shared: Arc<Mutex<SharedBody<B>>>,
    attempt: u32,
    position: usize,
    sent_trailers: bool,
}

/// The next frame of a body.
type PollFrame<E> = Poll<Option<Result<Frame<Bytes>, ReplayError<E>>>>;

/// An error of a [`ReplayBody`](super::ReplayBody).
#[derive(Debug, Error)]
pub enum ReplayError<E> {
    /// An error of the body itself.
    #[error(transparent)]
    Inner(E),
    /// Another attempt reads the body now.
    #[error("the request is being sent again")]
    Superseded,
}

// === impl SharedBody ===

impl<B> SharedBody<B> {
    pub(super) fn new(inner: B, max_bytes: usize) -> Self {
        Self {
            inner: Box::pin(inner),
            attempt: 0,
            waker: None,
            recorded: Vec::new(),
            max_bytes,
            trailers: None,
            has_ended: false,
            is_incomplete: false,
        }
    }

    /// Ends the recording: no further attempt follows.
    pub(super) fn stop(&mut self) {
        self.is_incomplete = true;
    }

    /// Copies `data`: a small frame may keep a large buffer alive.
    fn record(&mut self, data: &Bytes) {
        if self.is_incomplete {
            return;
        }
        if self.recorded.len() + data.len() > self.max_bytes {
            self.is_incomplete = true;
            self.recorded = Vec::new();
        } else {
            self.recorded.extend_from_slice(data);
        }
    }
}

// === impl Reader ===

impl<B> Reader<B> {
    /// Creates the reader of the first attempt.
    pub(super) fn first(shared: Arc<Mutex<SharedBody<B>>>) -> Self {
        Self { shared, attempt: 0, position: 0, sent_trailers: false }
    }

    /// Creates the reader of the next attempt and supersedes the previous one. `None` if the recording is incomplete.
    pub(super) fn next(shared: &Arc<Mutex<SharedBody<B>>>) -> Option<Self> {
        let mut body = shared.lock();
        if body.is_incomplete {
            return None;
        }
        body.attempt += 1;
        if let Some(superseded) = body.waker.take() {
            superseded.wake();
        }
        Some(Self { shared: Arc::clone(shared), attempt: body.attempt, position: 0, sent_trailers: false })
    }

    pub(super) fn with_inner<T>(&self, read: impl FnOnce(&B) -> T) -> T {
        read(&self.shared.lock().inner)
    }
}

impl<B: Body<Data = Bytes>> Reader<B> {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> PollFrame<B::Error> {
        let body = &mut *self.shared.lock();
        if self.attempt != body.attempt {
            return Poll::Ready(Some(Err(ReplayError::Superseded)));
        }
        if let Some(data) = body.recorded.get(self.position..).filter(|data| !data.is_empty()) {
            let data = Bytes::copy_from_slice(data);
            self.position = body.recorded.len();
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if body.has_ended {
            let trailers = body.trailers.clone().filter(|_| !self.sent_trailers);
            self.sent_trailers = true;
            return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
        }
        let Poll::Ready(next) = body.inner.as_mut().poll_frame(cx) else {
            body.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        Poll::Ready(match next {
            None => {
                body.has_ended = true;
                None
            }
            Some(Err(error)) => {
                body.is_incomplete = true;
                Some(Err(ReplayError::Inner(error)))
            }
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    body.record(data);
                    self.position = body.recorded.len();
                } else if let Some(trailers) = frame.trailers_ref() {
                    body.trailers = Some(trailers.clone());
                    body.has_ended = true;
                    self.sent_trailers = true;
                }
                Some(Ok(frame))
            }
        })
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let body = self.shared.lock();
        let is_at_end = self.position == body.recorded.len();
        let has_sent_trailers = body.trailers.is_none() || self.sent_trailers;
        is_at_end && if body.has_ended { has_sent_trailers } else { body.inner.is_end_stream() }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let body = self.shared.lock();
        let recorded = (body.recorded.len() - self.position.min(body.recorded.len())) as u64;
        let rest = if body.has_ended { SizeHint::with_exact(0) } else { body.inner.size_hint() };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + recorded);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + recorded);
        }
        hint
    }
}
