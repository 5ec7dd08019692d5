//! Body on a stream of an HTTP/2 connection.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Frame, SizeHint};

/// Body on a stream of an HTTP/2 connection, as a client or an upstream sends it.
#[derive(Debug)]
pub struct StreamBody {
    stream: RecvStream,
    /// Bytes that the sender has announced and not yet sent.
    left: Option<u64>,
    is_data_read: bool,
}

impl StreamBody {
    /// Wraps the body of a message with `headers`, which may announce its length.
    #[must_use]
    pub fn new(stream: RecvStream, headers: &HeaderMap) -> Self {
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let left = if stream.is_end_stream() { Some(0) } else { length };
        Self { stream, left, is_data_read: false }
    }

    /// Returns the next frame. A reset of the stream is an error, whatever its code.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.is_data_read {
            if let Some(data) = ready!(self.stream.poll_data(cx)).transpose()? {
                let _ = self.stream.flow_control().release_capacity(data.len());
                self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            self.is_data_read = true;
        }
        let trailers = ready!(self.stream.poll_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    /// Returns true after the last frame.
    #[must_use]
    pub fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    /// Returns the number of bytes that are left, if the sender announced it.
    #[must_use]
    pub fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
