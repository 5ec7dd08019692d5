//! Body on a stream of an HTTP/2 connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::http::fields::list_size;

/// Body on a stream of an HTTP/2 connection, as a client or an upstream sends it.
#[derive(Debug)]
pub struct StreamBody {
    stream: RecvStream,
    /// Bytes that the sender has announced and not yet sent.
    left: Option<u64>,
    is_data_read: bool,
    /// Largest size of the trailers.
    max_trailers: usize,
}

impl StreamBody {
    /// Wraps the body of a message with `headers`, which may announce its length. Its trailers may have a size of
    /// `max_trailers`, counted as in [`list_size`].
    #[must_use]
    pub fn new(stream: RecvStream, headers: &HeaderMap, max_trailers: usize) -> Self {
        let length = || headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
        let left = if stream.is_end_stream() { Some(0) } else { length() };
        Self { stream, left, is_data_read: false, max_trailers }
    }
}

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = h2::Error;

    /// Returns the next frame. A reset of the stream is an error, whatever its code, and so are too large trailers. A
    /// body that was cut by a reset never counts as complete.
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.is_data_read {
            if let Some(data) = ready!(self.stream.poll_data(cx)).transpose()? {
                let _ = self.stream.flow_control().release_capacity(data.len());
                self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            self.is_data_read = true;
        }
        let trailers = ready!(self.stream.poll_trailers(cx))?;
        if trailers.as_ref().is_some_and(|trailers| list_size(trailers) > self.max_trailers) {
            return Poll::Ready(Some(Err(Reason::PROTOCOL_ERROR.into())));
        }
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
