//! A body that can be read again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::reader::{Reader, ReplayError, SharedBody};

/// The body of one attempt.
#[derive(Debug)]
pub struct ReplayBody<B> {
    pub(super) kind: Kind<B>,
    wait: Option<MeasuredWait>,
}

#[derive(Debug)]
pub(super) enum Kind<B> {
    Empty,
    /// Not recorded.
    Direct(B),
    Recorded(Reader<B>),
}

/// A recorded body, for further attempts. The recording ends when it is dropped.
#[derive(Debug)]
pub struct Recording<B>(Option<Arc<Mutex<SharedBody<B>>>>);

/// Records up to `max_bytes` bytes of `body`. Returns the body for the first attempt, and the recording for further
/// ones; the recording is `None` if the body is known to be larger.
pub fn record<B: Body<Data = Bytes>>(body: B, max_bytes: usize) -> (ReplayBody<B>, Option<Recording<B>>) {
    if body.is_end_stream() {
        return (ReplayBody::new(Kind::Empty), Some(Recording(None)));
    }
    if body.size_hint().lower() > max_bytes as u64 {
        return (ReplayBody::direct(body), None);
    }
    let shared = Arc::new(Mutex::new(SharedBody::new(body, max_bytes)));
    (ReplayBody::new(Kind::Recorded(Reader::first(Arc::clone(&shared)))), Some(Recording(Some(shared))))
}

// === impl Recording ===

impl<B> Recording<B> {
    /// Returns the body from its beginning, for a further attempt. Reading the body of the previous attempt fails from
    /// then on. `None` if the recording is incomplete.
    #[must_use]
    pub fn replay(&self) -> Option<ReplayBody<B>> {
        match &self.0 {
            None => Some(ReplayBody::new(Kind::Empty)),
            Some(shared) => Reader::next(shared).map(|reader| ReplayBody::new(Kind::Recorded(reader))),
        }
    }
}

impl<B> Drop for Recording<B> {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.lock().stop();
        }
    }
}

// === impl ReplayBody ===

impl<B> ReplayBody<B> {
    /// Wraps `body` without recording it, for a request with a single attempt.
    pub fn direct(body: B) -> Self {
        Self::new(Kind::Direct(body))
    }

    fn new(kind: Kind<B>) -> Self {
        Self { kind, wait: None }
    }

    /// Measures the time for which the reader of this body waits from now on.
    #[must_use]
    pub fn measure_wait(&mut self) -> Arc<BodyWait> {
        let wait = Arc::<BodyWait>::default();
        self.wait = Some(MeasuredWait(Arc::clone(&wait)));
        wait
    }

    /// Returns the inner body if it is neither recorded nor measured.
    ///
    /// # Errors
    /// Returns `self` otherwise.
    pub fn into_direct(self) -> Result<B, Self>
    where
        B: Default,
    {
        if self.wait.is_some() {
            return Err(self);
        }
        match self.kind {
            Kind::Empty => Ok(B::default()),
            Kind::Direct(body) => Ok(body),
            recorded @ Kind::Recorded(_) => Err(Self::new(recorded)),
        }
    }

    /// Calls `read` with the inner body, if there is one.
    pub fn with_inner<T>(&self, read: impl FnOnce(&B) -> T) -> Option<T> {
        match &self.kind {
            Kind::Empty => None,
            Kind::Direct(body) => Some(read(body)),
            Kind::Recorded(reader) => Some(reader.with_inner(read)),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReplayBody<B> {
    type Data = Bytes;
    type Error = ReplayError<B::Error>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = match &mut self.kind {
            Kind::Empty => Poll::Ready(None),
            Kind::Direct(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(ReplayError::Inner)))
            }
            Kind::Recorded(reader) => reader.poll(cx),
        };
        if let Some(wait) = &self.wait {
            wait.polled(&frame);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Direct(body) => body.is_end_stream(),
            Kind::Recorded(reader) => reader.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Direct(body) => body.size_hint(),
            Kind::Recorded(reader) => reader.size_hint(),
        }
    }
}

/// Time for which the reader of a body has waited for the client.
#[derive(Debug, Default)]
pub struct BodyWait(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// Start of the current wait.
    since: Option<Instant>,
    /// Sum of the earlier ones.
    before: Duration,
}

/// Measures the waits for one body until it is dropped.
#[derive(Debug)]
pub(super) struct MeasuredWait(pub(super) Arc<BodyWait>);

// === impl BodyWait ===

impl BodyWait {
    /// Returns the sum of all waits.
    #[must_use]
    pub fn total(&self) -> Duration {
        let waits = self.0.lock();
        waits.before + waits.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns true while the reader waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.0.lock().since.is_some()
    }

    fn end(&self) {
        let mut waits = self.0.lock();
        if let Some(since) = waits.since.take() {
            waits.before += since.elapsed();
        }
    }
}

// === impl MeasuredWait ===

impl MeasuredWait {
    /// Notes the result of a poll of the body.
    pub(super) fn polled<T>(&self, frame: &Poll<T>) {
        if frame.is_pending() {
            self.0.0.lock().since.get_or_insert_with(Instant::now);
        } else {
            self.0.end();
        }
    }
}

impl Drop for MeasuredWait {
    fn drop(&mut self) {
        self.0.end();
    }
}
