//! Response body as it arrives from an upstream.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::Reason;
use http_body::{Body as _, Frame, SizeHint};

use crate::http::body::{BodyError, StreamBody};
use crate::http::trailers::clean_upstream_trailers;
use crate::upstream::pool::{Connection, Sender};

/// Response body as it arrives from an upstream.
#[derive(Debug)]
pub(super) enum Incoming {
    /// HTTP/1.1: the connection reads it.
    Http1,
    /// HTTP/2.
    Http2(StreamBody),
}

impl Incoming {
    /// Returns true if the body has been read to its end. Over HTTP/1.1 it has if there is no `connection` any more.
    pub(super) fn is_end_stream(&self, connection: Option<&Connection>) -> bool {
        match (self, connection.map(|connection| &connection.sender)) {
            (Self::Http2(stream), _) => stream.is_end_stream(),
            (Self::Http1, Some(Sender::Http1(http1))) => http1.has_ended(),
            (Self::Http1, _) => true,
        }
    }

    /// Returns the size of the rest of the body.
    pub(super) fn size_hint(&self, connection: Option<&Connection>) -> SizeHint {
        match (self, connection.map(|connection| &connection.sender)) {
            (Self::Http2(stream), _) => stream.size_hint(),
            (Self::Http1, Some(Sender::Http1(http1))) => http1.size_hint(),
            (Self::Http1, _) => SizeHint::with_exact(0),
        }
    }

    /// Returns the next frame if it has arrived.
    pub(super) fn received(&mut self, connection: &mut Connection) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match (&self, connection.http1()) {
            (Self::Http1, Some(http1)) => match http1.received_frame().transpose() {
                None if !http1.has_ended() => Poll::Pending,
                frame => Poll::Ready(frame.map(cleaned)),
            },
            // A later poll registers its task.
            _ => self.poll(connection, &mut Context::from_waker(Waker::noop())),
        }
    }

    /// Returns the next frame. Over HTTP/2, the body ends without an error if the upstream resets the stream with `NO_ERROR`; it
    /// is complete only if `is_end_stream` is true then.
    pub(super) fn poll(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match self {
            Self::Http1 => match connection.http1() {
                Some(http1) => ready!(http1.poll_frame(cx)),
                None => None,
            },
            Self::Http2(stream) => match ready!(Pin::new(stream).poll_frame(cx)) {
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => None,
                frame => frame.map(|frame| frame.map_err(|error| BodyError::Upstream(error.into()))),
            },
        };
        Poll::Ready(frame.map(cleaned))
    }
}

/// Removes from trailers the fields that no trailers may have.
fn cleaned(mut frame: Result<Frame<Bytes>, BodyError>) -> Result<Frame<Bytes>, BodyError> {
    if let Ok(frame) = &mut frame
        && let Some(trailers) = frame.trailers_mut()
    {
        clean_upstream_trailers(trailers);
    }
    frame
}
