//! One request on a stream of an HTTP/2 connection, up to the response head.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use h2::Reason;
use h2::client::ResponseFuture;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TE, UPGRADE};
use http::{Method, Request, Response, request};
use http_body::Body as _;

use crate::http::body::{Body, BodyError, StreamBody};
use crate::http::fields::list_size;
use crate::upstream::interim::InterimRelay;
use crate::upstream::pool::http2::upload::UploadTask;

/// Fields that HTTP/2 forbids (RFC 9113 §8.2.2), beside those that no request has here.
static FORBIDDEN: [HeaderName; 3] =
    [UPGRADE, HeaderName::from_static("keep-alive"), HeaderName::from_static("proxy-connection")];

/// Error of a request that got no response head.
#[derive(Debug)]
pub(in crate::upstream) enum SendError {
    /// The connection has ended before the request was sent.
    Unsent(Box<Request<Body>>, h2::Error),
    /// The stream or its connection failed.
    Stream(h2::Error),
    /// The body of the request failed.
    Body(BodyError),
}

/// Response head that is expected. If it is dropped before the head arrives, the stream is reset.
#[derive(Debug)]
pub(in crate::upstream) struct ResponseHead {
    response: ResponseFuture,
    relay: Option<InterimRelay>,
    upload: Option<UploadTask>,
    max_bytes: usize,
}

impl ResponseHead {
    /// Expects the head of `response`, whose fields may have a size of `max_bytes`. Interim responses before it go to
    /// `relay`.
    pub(super) fn new(
        response: ResponseFuture,
        relay: Option<InterimRelay>,
        upload: Option<UploadTask>,
        max_bytes: usize,
    ) -> Self {
        Self { response, relay, upload, max_bytes }
    }
}

impl Future for ResponseHead {
    type Output = Result<Response<StreamBody>, SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Without a relay, h2 drops the interim responses.
        if let Some(relay) = &this.relay {
            while let Poll::Ready(Some(Ok(interim))) = this.response.poll_informational(cx) {
                let (head, ()) = interim.into_parts();
                relay.relay(head.status, head.headers);
            }
        }
        let response = ready!(Pin::new(&mut this.response).poll(cx));
        let upload = this.upload.take();
        Poll::Ready(match response {
            Ok(response) => {
                let (head, stream) = response.into_parts();
                if list_size(&head.headers) > this.max_bytes {
                    return Poll::Ready(Err(SendError::Stream(Reason::PROTOCOL_ERROR.into())));
                }
                // The rest of the request is still sent.
                if let Some(upload) = upload {
                    upload.detach();
                }
                let body = StreamBody::new(stream, &head.headers, this.max_bytes);
                Ok(Response::from_parts(head, body))
            }
            Err(error) => Err(match upload.and_then(|upload| upload.take_failure()) {
                Some(failure) => SendError::Body(failure),
                None => SendError::Stream(error),
            }),
        })
    }
}

/// Removes fields that h2 rejects, and adds the length of the body.
pub(super) fn prepare_fields(head: &mut request::Parts, body: &Body) {
    let headers = &mut head.headers;
    for name in &FORBIDDEN {
        headers.remove(name);
    }
    if headers.get(TE).is_some_and(|value| value != "trailers") {
        headers.remove(TE);
    }
    if let Some(length) = body.size_hint().exact()
        && (length > 0 || ![Method::GET, Method::HEAD, Method::DELETE, Method::CONNECT].contains(&head.method))
        && !headers.contains_key(CONTENT_LENGTH)
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}
