//! One request on one connection, up to the response head.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::time::Instant;

use crate::http::body::{Body, UploadProgress};
use crate::http::deadline::Deadline;
use crate::upstream::error::{ForwardError, is_invalid};
use crate::upstream::interim::InterimRelay;
use crate::upstream::pool::{Connection, Sender};
use crate::upstream::repeat::Progress;

/// Error of an exchange.
#[derive(Debug)]
pub(super) struct ExchangeError {
    /// The error.
    pub(super) error: ForwardError,
    /// Progress of the request.
    pub(super) progress: Progress,
    /// The request, if no byte of it was written.
    pub(super) unsent: Option<Request<Body>>,
}

impl ExchangeError {
    /// Returns the error of a response that did not arrive in time.
    pub(super) fn timeout() -> Self {
        Self { error: ForwardError::Timeout, progress: Progress::Final, unsent: None }
    }
}

impl From<TrySendError<Request<Body>>> for ExchangeError {
    fn from(mut error: TrySendError<Request<Body>>) -> Self {
        let unsent = error.take_message();
        let error = error.into_error();
        let progress = if unsent.is_some() { Progress::Unprocessed } else { progress(&error) };
        let error = match progress {
            Progress::Unprocessed | Progress::Refused if unsent.is_none() => ForwardError::Refused(error),
            _ => ForwardError::Exchange(error),
        };
        Self { error, progress, unsent }
    }
}

/// Sends the request and waits for the response head, for `timeout` from `started` on at most. Interim responses of
/// HTTP/1.1 go to `relay`.
pub(super) async fn exchange(
    connection: &mut Connection,
    request: Request<Body>,
    relay: Option<InterimRelay>,
    started: Instant,
    timeout: Option<Duration>,
    upload: Option<&UploadProgress>,
) -> Result<Response<Incoming>, ExchangeError> {
    connection.expect_head(timeout.map(|timeout| started + timeout));
    let response = match &mut connection.sender {
        Sender::Http1(http1) => {
            let sending = http1.send(request, relay);
            response_head(sending, &mut connection.deadline, timeout, upload).await
        }
        Sender::Http2(sender, stream) => {
            let sending = sender.try_send_request(request);
            let response = Box::pin(response_head(sending, &mut connection.deadline, timeout, upload)).await;
            if let Err(ExchangeError { progress: Progress::Unprocessed, .. }) = response {
                stream.retire();
            }
            response
        }
    };
    connection.head_received(response.as_ref().ok());
    response
}

async fn response_head(
    sending: impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>>,
    deadline: &mut Deadline,
    timeout: Option<Duration>,
    upload: Option<&UploadProgress>,
) -> Result<Response<Incoming>, ExchangeError> {
    let mut sending = pin!(sending);
    poll_fn(|cx| {
        if let Poll::Ready(response) = sending.as_mut().poll(cx) {
            return Poll::Ready(response.map_err(ExchangeError::from));
        }
        ready!(poll_timeout(deadline, timeout, upload, cx));
        Poll::Ready(Err(ExchangeError::timeout()))
    })
    .await
}

/// Completes when the response head is late. An upstream cannot respond before it has the whole request, so the `timeout`
/// starts again with each part of the `upload`.
pub(super) fn poll_timeout(
    deadline: &mut Deadline,
    timeout: Option<Duration>,
    upload: Option<&UploadProgress>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    while deadline.poll_expired(cx).is_ready() {
        let latest = upload.and_then(UploadProgress::last_progress).zip(timeout);
        match latest.map(|(latest, timeout)| latest + timeout).filter(|at| *at > Instant::now()) {
            Some(at) => deadline.set(at),
            None => return Poll::Ready(()),
        }
    }
    Poll::Pending
}

/// Returns the progress of a request of which at least a part may have been written. h2 fails a stream with the upstream's
/// GOAWAY only if the GOAWAY names an earlier stream as the last one.
fn progress(error: &hyper::Error) -> Progress {
    match error.source().and_then(|source| source.downcast_ref::<h2::Error>()) {
        Some(http2) if http2.is_remote() && http2.is_go_away() => Progress::Unprocessed,
        Some(http2) if http2.is_remote() && http2.reason() == Some(h2::Reason::REFUSED_STREAM) => Progress::Refused,
        _ if is_invalid(error) => Progress::Final,
        _ => Progress::Unknown,
    }
}
