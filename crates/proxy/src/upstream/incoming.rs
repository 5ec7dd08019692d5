//! Response body as it arrives from an upstream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::Reason;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::http::body::{BodyError, StreamBody};
use crate::http::trailers::clean_upstream_trailers;

/// Response body as it arrives from an upstream.
#[derive(Debug)]
pub(super) enum Incoming {
    /// HTTP/1.1.
    Http1(hyper::body::Incoming),
    /// HTTP/2.
    Http2(StreamBody),
}

impl From<hyper::body::Incoming> for Incoming {
    fn from(body: hyper::body::Incoming) -> Self {
        Self::Http1(body)
    }
}

impl From<StreamBody> for Incoming {
    fn from(body: StreamBody) -> Self {
        Self::Http2(body)
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    /// Returns the next frame. The body ends without an error if the upstream resets the stream with `NO_ERROR`; it is
    /// complete only if [`is_end_stream`](HttpBody::is_end_stream) is true then.
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut frame = match &mut *self {
            Self::Http1(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(BodyError::Upstream)),
            Self::Http2(body) => match ready!(body.poll(cx)) {
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => None,
                frame => frame.map(|frame| frame.map_err(BodyError::UpstreamStream)),
            },
        };
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            clean_upstream_trailers(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
        }
    }
}
