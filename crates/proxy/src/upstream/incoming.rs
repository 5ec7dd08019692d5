//! Response body as it arrives from an upstream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::Reason;
use http_body::{Body as _, Frame};

use crate::http::body::{self, BodyError, IncomingError, StreamBody};
use crate::http::trailers::clean_upstream_trailers;

/// Response body as it arrives from an upstream.
pub(super) type Incoming = body::Incoming<StreamBody>;

/// Returns the next frame. The body ends without an error if the upstream resets the stream with `NO_ERROR`; it is
/// complete only if `is_end_stream` is true then.
pub(super) fn poll_incoming(
    incoming: &mut Incoming,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    let mut frame = match ready!(Pin::new(incoming).poll_frame(cx)) {
        Some(Err(IncomingError::Http2(error))) if error.reason() == Some(Reason::NO_ERROR) => None,
        frame => frame.map(|frame| frame.map_err(BodyError::Upstream)),
    };
    if let Some(Ok(frame)) = &mut frame
        && let Some(trailers) = frame.trailers_mut()
    {
        clean_upstream_trailers(trailers);
    }
    Poll::Ready(frame)
}
