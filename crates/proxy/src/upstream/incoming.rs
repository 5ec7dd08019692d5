//! Response body as it arrives from an upstream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::Response;
use http::header::CONTENT_LENGTH;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::http::body::BodyError;

/// Response body as it arrives from an upstream.
#[derive(Debug)]
pub(super) enum Incoming {
    /// HTTP/1.1.
    Http1(hyper::body::Incoming),
    /// HTTP/2.
    Http2(ResponseStream),
}

/// Response body on a stream of an HTTP/2 connection.
#[derive(Debug)]
pub(super) struct ResponseStream {
    stream: RecvStream,
    /// Bytes that the upstream has announced and not yet sent.
    left: Option<u64>,
    is_data_read: bool,
}

impl ResponseStream {
    /// Wraps the body of a response.
    pub(super) fn of(response: Response<RecvStream>) -> Response<Self> {
        let length = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        response.map(|stream| {
            let left = if stream.is_end_stream() { Some(0) } else { length };
            Self { stream, left, is_data_read: false }
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
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
}

impl From<hyper::body::Incoming> for Incoming {
    fn from(body: hyper::body::Incoming) -> Self {
        Self::Http1(body)
    }
}

impl From<ResponseStream> for Incoming {
    fn from(body: ResponseStream) -> Self {
        Self::Http2(body)
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    /// Returns the next frame. The body ends without an error if the upstream resets the stream with `NO_ERROR`; it is
    /// complete only if [`is_end_stream`](HttpBody::is_end_stream) is true then.
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Http1(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(BodyError::Upstream)))
            }
            Self::Http2(body) => Poll::Ready(match ready!(body.poll(cx)) {
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => None,
                frame => frame.map(|frame| frame.map_err(BodyError::UpstreamStream)),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
