//! A body that can be read again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use thiserror::Error;

/// A body as one attempt reads it.
#[derive(Debug)]
pub struct ReplayBody<B>(Kind<B>);

#[derive(Debug)]
enum Kind<B> {
    /// There is none.
    Empty,
    /// Nobody records it.
    Direct(B),
    Recorded(Reader<B>),
}

/// The beginning of a body, from which it can be read again.
#[derive(Debug)]
pub struct Recording<B>(Option<Arc<Mutex<Tape<B>>>>);

/// One reader of a tape. Only the latest reads on: an earlier attempt may still be busy sending.
#[derive(Debug)]
struct Reader<B> {
    tape: Arc<Mutex<Tape<B>>>,
    turn: u32,
    position: usize,
    told_trailers: bool,
}

#[derive(Debug)]
struct Tape<B> {
    inner: Pin<Box<B>>,
    turn: u32,
    /// Who waits for the next piece. Its turn may be over before that comes, and then it has to be told so.
    waits: Option<Waker>,
    read: Vec<u8>,
    max_bytes: usize,
    trailers: Option<HeaderMap>,
    has_ended: bool,
    /// Whether it is too late to start anew: it was larger than the bound, or broke off.
    is_lost: bool,
}

/// The next piece of a body.
type Polled<E> = Poll<Option<Result<Frame<Bytes>, ReplayError<E>>>>;

/// Why a [`ReplayBody`] broke off.
#[derive(Debug, Error)]
pub enum ReplayError<E> {
    /// The body itself did.
    #[error(transparent)]
    Inner(E),
    /// Another attempt reads it now.
    #[error("the request is being sent again")]
    Superseded,
}

/// `body` to be read once, and what it takes to read it again: as long as no more than `max_bytes` of it were read.
pub fn record<B: Body<Data = Bytes>>(body: B, max_bytes: usize) -> (ReplayBody<B>, Option<Recording<B>>) {
    if body.is_end_stream() {
        return (ReplayBody(Kind::Empty), Some(Recording(None)));
    }
    if body.size_hint().lower() > max_bytes as u64 {
        return (ReplayBody::direct(body), None);
    }
    let tape = Tape {
        inner: Box::pin(body),
        turn: 0,
        waits: None,
        read: Vec::new(),
        max_bytes,
        trailers: None,
        has_ended: false,
        is_lost: false,
    };
    let tape = Arc::new(Mutex::new(tape));
    let reader = Reader { tape: Arc::clone(&tape), turn: 0, position: 0, told_trailers: false };
    (ReplayBody(Kind::Recorded(reader)), Some(Recording(Some(tape))))
}

// === impl Recording ===

impl<B> Recording<B> {
    /// The body from its beginning, for a further attempt; the one before cannot read on. `None` when that is too late.
    #[must_use]
    pub fn replay(&self) -> Option<ReplayBody<B>> {
        let Some(shared) = &self.0 else { return Some(ReplayBody(Kind::Empty)) };
        let mut tape = shared.lock();
        if tape.is_lost {
            return None;
        }
        tape.turn += 1;
        if let Some(earlier) = tape.waits.take() {
            earlier.wake();
        }
        let reader = Reader { tape: Arc::clone(shared), turn: tape.turn, position: 0, told_trailers: false };
        Some(ReplayBody(Kind::Recorded(reader)))
    }
}

// === impl ReplayBody ===

impl<B> ReplayBody<B> {
    /// `body` as it is, for a request that is not run again.
    pub fn direct(body: B) -> Self {
        Self(Kind::Direct(body))
    }

    /// The body alone where nobody records it; `Err` where somebody does.
    ///
    /// # Errors
    /// Itself, when it is recorded.
    pub fn into_direct(self) -> Result<B, Self>
    where
        B: Default,
    {
        match self.0 {
            Kind::Empty => Ok(B::default()),
            Kind::Direct(body) => Ok(body),
            recorded @ Kind::Recorded(_) => Err(Self(recorded)),
        }
    }

    /// Shows `look` the body within, if there is one.
    pub fn with_inner<T>(&self, look: impl FnOnce(&B) -> T) -> Option<T> {
        match &self.0 {
            Kind::Empty => None,
            Kind::Direct(body) => Some(look(body)),
            Kind::Recorded(reader) => Some(look(&reader.tape.lock().inner)),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReplayBody<B> {
    type Data = Bytes;
    type Error = ReplayError<B::Error>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Direct(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(ReplayError::Inner)))
            }
            Kind::Recorded(reader) => reader.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Direct(body) => body.is_end_stream(),
            Kind::Recorded(reader) => {
                let tape = reader.tape.lock();
                let at_end = reader.position == tape.read.len();
                let told = tape.trailers.is_none() || reader.told_trailers;
                at_end && if tape.has_ended { told } else { tape.inner.is_end_stream() }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Direct(body) => body.size_hint(),
            Kind::Recorded(reader) => {
                let tape = reader.tape.lock();
                let again = (tape.read.len() - reader.position.min(tape.read.len())) as u64;
                let rest = if tape.has_ended { SizeHint::with_exact(0) } else { tape.inner.size_hint() };
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower() + again);
                if let Some(upper) = rest.upper() {
                    hint.set_upper(upper + again);
                }
                hint
            }
        }
    }
}

// === impl Reader ===

impl<B: Body<Data = Bytes>> Reader<B> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Polled<B::Error> {
        let tape = &mut *self.tape.lock();
        if self.turn != tape.turn {
            return Poll::Ready(Some(Err(ReplayError::Superseded)));
        }
        if let Some(again) = tape.read.get(self.position..).filter(|again| !again.is_empty()) {
            let again = Bytes::copy_from_slice(again);
            self.position = tape.read.len();
            return Poll::Ready(Some(Ok(Frame::data(again))));
        }
        if tape.has_ended {
            let trailers = tape.trailers.clone().filter(|_| !self.told_trailers);
            self.told_trailers = true;
            return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
        }
        let Poll::Ready(next) = tape.inner.as_mut().poll_frame(cx) else {
            tape.waits = Some(cx.waker().clone());
            return Poll::Pending;
        };
        Poll::Ready(match next {
            None => {
                tape.has_ended = true;
                None
            }
            Some(Err(error)) => {
                tape.is_lost = true;
                Some(Err(ReplayError::Inner(error)))
            }
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    tape.note(data);
                    self.position = tape.read.len();
                } else if let Some(trailers) = frame.trailers_ref() {
                    tape.trailers = Some(trailers.clone());
                    tape.has_ended = true;
                    self.told_trailers = true;
                }
                Some(Ok(frame))
            }
        })
    }
}

// === impl Tape ===

impl<B> Tape<B> {
    /// Copied, not kept: a piece of one byte may hold on to a buffer of many.
    fn note(&mut self, data: &Bytes) {
        if self.is_lost {
            return;
        }
        if self.read.len() + data.len() > self.max_bytes {
            self.is_lost = true;
            self.read = Vec::new();
        } else {
            self.read.extend_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::VecDeque;
    use std::convert::Infallible;

    use http_body_util::{BodyExt, Full};

    use super::*;

    /// Pieces, then trailers.
    struct Pieces(VecDeque<Frame<Bytes>>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }
    }

    fn pieces() -> Pieces {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", http::HeaderValue::from_static("5"));
        let data = ["he", "llo"].map(|piece| Frame::data(Bytes::from_static(piece.as_bytes())));
        Pieces(data.into_iter().chain([Frame::trailers(trailers)]).collect())
    }

    #[tokio::test]
    async fn a_body_is_read_again_from_its_beginning_with_its_trailers() {
        let (mut first, recording) = record(pieces(), 5);
        let recording = recording.unwrap();
        assert_eq!(first.frame().await.unwrap().unwrap().into_data().unwrap(), "he");
        let second = recording.replay().unwrap();
        assert!(matches!(first.frame().await, Some(Err(ReplayError::Superseded))), "the first is out of its turn");
        for body in [second, recording.replay().unwrap()].into_iter().skip(1) {
            let all = body.collect().await.unwrap();
            assert_eq!(all.trailers().unwrap()["x-sum"], "5");
            assert_eq!(all.to_bytes(), "hello");
        }
        let third = recording.replay().unwrap();
        assert!(!third.is_end_stream());
        assert_eq!(third.size_hint().exact(), Some(5));
        assert_eq!(third.collect().await.unwrap().to_bytes(), "hello");
    }

    /// A body that never comes.
    struct Silence;

    impl Body for Silence {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn whoever_waits_for_a_body_learns_that_another_attempt_has_it() {
        let (mut first, recording) = record(Silence, 5);
        let (read, second) = tokio::join!(first.frame(), async { recording.unwrap().replay().unwrap() });
        assert!(matches!(read, Some(Err(ReplayError::Superseded))));
        assert!(!second.is_end_stream());
    }

    #[tokio::test]
    async fn a_body_beyond_the_bound_streams_and_is_not_read_again() {
        let (first, recording) = record(pieces(), 4);
        assert_eq!(first.collect().await.unwrap().to_bytes(), "hello");
        assert!(recording.unwrap().replay().is_none());
        let (announced, recording) = record(Full::<Bytes>::from("hello"), 4);
        assert!(recording.is_none());
        assert_eq!(announced.collect().await.unwrap().to_bytes(), "hello");
    }

    #[tokio::test]
    async fn a_request_without_a_body_costs_nothing() {
        let (body, recording) = record(Full::<Bytes>::default(), 4);
        assert!(matches!(body.0, Kind::Empty) && body.is_end_stream());
        assert!(recording.unwrap().replay().unwrap().is_end_stream());
    }

    #[tokio::test]
    async fn what_is_left_is_announced_exactly() {
        let (mut first, recording) = record(Full::<Bytes>::from("hello"), 5);
        assert_eq!(first.size_hint().exact(), Some(5));
        first.frame().await.unwrap().unwrap();
        assert!(first.is_end_stream());
        assert_eq!(first.size_hint().exact(), Some(0));
        assert_eq!(recording.unwrap().replay().unwrap().size_hint().exact(), Some(5));
    }
}
