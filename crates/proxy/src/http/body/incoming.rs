//! Request body as the server receives it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::http::body::BodyError;
use crate::http::interim::InterimSender;

/// Request body as the server receives it.
#[derive(Debug)]
pub enum Incoming {
    /// HTTP/1.0 and HTTP/1.1.
    Http1(hyper::body::Incoming),
    /// HTTP/2.
    Http2(Box<StreamBody>),
}

/// Request body on a stream of an HTTP/2 connection.
#[derive(Debug)]
pub struct StreamBody {
    stream: RecvStream,
    /// Bytes that the client has announced and not yet sent.
    left: Option<u64>,
    is_data_read: bool,
    /// Present if the client waits for `100 Continue` before it sends the body.
    waiting: Option<InterimSender>,
}

impl StreamBody {
    /// Wraps the body of a request that announced `length` bytes. The first read sends `100 Continue` to `waiting`.
    #[must_use]
    pub fn new(stream: RecvStream, length: Option<u64>, waiting: Option<InterimSender>) -> Self {
        let left = if stream.is_end_stream() { Some(0) } else { length };
        Self { stream, left, is_data_read: false, waiting }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(client) = self.waiting.take() {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::CONTINUE;
            client.send(response);
        }
        if !self.is_data_read {
            // A reset is an error, whatever its code: a body that was cut never counts as complete.
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
