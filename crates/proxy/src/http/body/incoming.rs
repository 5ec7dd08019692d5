//! Request body as the server receives it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::http::body::{BodyError, StreamBody};
use crate::http::interim::InterimSender;

/// Request body as the server receives it.
#[derive(Debug)]
pub enum Incoming {
    /// HTTP/1.0 and HTTP/1.1.
    Http1(hyper::body::Incoming),
    /// HTTP/2.
    Http2(Box<ClientStream>),
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

    /// Returns the next frame. A body that was cut by a reset never counts as complete.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(client) = self.waiting.take() {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::CONTINUE;
            client.send(response);
        }
        self.body.poll(cx)
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Http1(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(BodyError::Client)))
            }
            Self::Http2(body) => body.poll(cx).map(|frame| frame.map(|frame| frame.map_err(BodyError::ClientStream))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.body.size_hint(),
        }
    }
}
