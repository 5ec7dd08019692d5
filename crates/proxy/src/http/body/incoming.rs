//! Body as it arrives on a connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use thiserror::Error;

use crate::http::body::StreamBody;
use crate::http::interim::InterimSender;

/// Body as it arrives from a client.
#[derive(Debug)]
pub enum Incoming {
    /// HTTP/1.0 and HTTP/1.1.
    Http1(hyper::body::Incoming),
    /// HTTP/2.
    Http2(Box<ClientStream>),
}

/// The sender disconnected, reset the stream, or broke the protocol's framing.
#[derive(Debug, Error)]
#[error(transparent)]
pub enum IncomingError {
    /// HTTP/1.0 and HTTP/1.1.
    Http1(hyper::Error),
    /// HTTP/2.
    Http2(h2::Error),
}

/// Request body on a stream of an HTTP/2 connection.
#[derive(Debug)]
pub struct ClientStream {
    body: StreamBody,
    /// Present if the client waits for `100 Continue` before it sends the body.
    waiting: Option<InterimSender>,
}

impl ClientStream {
    /// Wraps the body of a request. The first read sends `100 Continue` to `waiting`.
    #[must_use]
    pub fn new(body: StreamBody, waiting: Option<InterimSender>) -> Self {
        Self { body, waiting }
    }
}

impl HttpBody for ClientStream {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(client) = self.waiting.take() {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::CONTINUE;
            client.send(response);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = IncomingError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, IncomingError>>> {
        match &mut *self {
            Self::Http1(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(IncomingError::Http1)))
            }
            Self::Http2(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(IncomingError::Http2)))
            }
        }
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
