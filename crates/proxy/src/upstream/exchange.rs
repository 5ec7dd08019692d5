//! One request on one connection, up to the response head.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use hyper::client::conn::TrySendError;
use tokio::time::Instant;

use crate::http::body::{Body, UploadProgress};
use crate::http::deadline::Deadline;
use crate::upstream::error::{ForwardError, is_invalid_stream};
use crate::upstream::incoming::Incoming;
use crate::upstream::interim::InterimRelay;
use crate::upstream::pool::{Connection, SendError, Sender};
use crate::upstream::repeat::Progress;

/// Pause of an upload after which an upstream that closes the connection has not failed.
const MAX_PAUSE: Duration = Duration::from_secs(1);

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
    /// Returns the error of a response that did not arrive in time. It is the client's if the gateway waits for the rest of
    /// `upload`.
    pub(super) fn timeout(upload: Option<&UploadProgress>) -> Self {
        let waits = upload.is_some_and(UploadProgress::is_waiting);
        let error = if waits { ForwardError::BodyTooLate } else { ForwardError::Timeout };
        Self { error, progress: Progress::Final, unsent: None }
    }

    /// Blames the client if the connection was closed while the gateway had been waiting for the rest of `upload` for
    /// [`MAX_PAUSE`]: upstreams have time limits for it, too.
    pub(super) fn after(self, upload: Option<&UploadProgress>) -> Self {
        if self.progress == Progress::Unknown && upload.is_some_and(|upload| upload.has_waited(MAX_PAUSE)) {
            return Self { error: ForwardError::BodyTooLate, progress: Progress::Final, unsent: None };
        }
        self
    }
}

impl From<TrySendError<Request<Body>>> for ExchangeError {
    fn from(mut error: TrySendError<Request<Body>>) -> Self {
        let unsent = error.take_message();
        let error = error.into_error();
        let progress = match &unsent {
            Some(_) => Progress::Unprocessed,
            None if error.is_parse() => Progress::Final,
            None => Progress::Unknown,
        };
        Self { error: ForwardError::Exchange(error), progress, unsent }
    }
}

impl From<SendError> for ExchangeError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Unsent(request, error) => {
                Self { error: ForwardError::Stream(error), progress: Progress::Unprocessed, unsent: Some(*request) }
            }
            SendError::Body(error) => {
                Self { error: ForwardError::RequestBody(error), progress: Progress::Final, unsent: None }
            }
            SendError::Stream(error) => {
                let progress = progress(&error);
                let error = match progress {
                    Progress::Unprocessed | Progress::Refused => ForwardError::Refused(error),
                    Progress::Unknown | Progress::Final => ForwardError::Stream(error),
                };
                Self { error, progress, unsent: None }
            }
        }
    }
}

/// Sends the request and waits for the response head, for `timeout` from `started` on at most. Interim responses go to
/// `relay`.
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
            let response = response_head(sending, &mut connection.deadline, timeout, upload).await;
            response.map(|response| response.map(Incoming::Http1))
        }
        Sender::Http2(stream) => {
            let response = match stream.send(request, relay) {
                Ok(sending) => response_head(sending, &mut connection.deadline, timeout, upload).await,
                Err(error) => Err(error.into()),
            };
            let response = response.map(|response| response.map(Incoming::Http2));
            if let Err(ExchangeError { progress: Progress::Unprocessed, .. }) = response {
                stream.retire();
            }
            response
        }
    };
    connection.head_received(response.as_ref().ok());
    response
}

async fn response_head<B, E: Into<ExchangeError>>(
    sending: impl Future<Output = Result<Response<B>, E>>,
    deadline: &mut Deadline,
    timeout: Option<Duration>,
    upload: Option<&UploadProgress>,
) -> Result<Response<B>, ExchangeError> {
    let mut sending = pin!(sending);
    poll_fn(|cx| {
        if let Poll::Ready(response) = sending.as_mut().poll(cx) {
            return Poll::Ready(response.map_err(Into::into));
        }
        ready!(poll_timeout(deadline, timeout, upload, cx));
        Poll::Ready(Err(ExchangeError::timeout(upload)))
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
fn progress(error: &h2::Error) -> Progress {
    if error.is_remote() && error.is_go_away() {
        Progress::Unprocessed
    } else if error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM) {
        Progress::Refused
    } else if is_invalid_stream(error) {
        Progress::Final
    } else {
        Progress::Unknown
    }
}
