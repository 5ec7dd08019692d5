//! One request on one connection, up to the response head.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use tokio::time::Instant;

use crate::http::body::{Body, UploadProgress};
use crate::http::deadline::Deadline;
use crate::upstream::error::{ForwardError, is_invalid_stream};
use crate::upstream::incoming::Incoming;
use crate::upstream::interim::InterimRelay;
use crate::upstream::pool::http1::{Http1Connection, Http1Error};
use crate::upstream::pool::{Connection, SendError, Sender};

/// Pause of an upload after which an upstream that closes the connection has not failed.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Error of an exchange.
#[derive(Debug)]
pub(super) struct ExchangeError {
    /// The error.
    pub(super) error: ForwardError,
    /// Progress of the request.
    pub(super) progress: Progress,
    /// The request, if it can be sent again: no byte of it was written, or it has no body.
    pub(super) request: Option<Request<Body>>,
}

impl ExchangeError {
    /// Returns the error of a response that did not arrive in time. It is the client's if the gateway waits for the rest of
    /// `upload`.
    pub(super) fn timeout(upload: Option<&UploadProgress>) -> Self {
        let waits = upload.is_some_and(UploadProgress::is_waiting);
        let error = if waits { ForwardError::BodyTooLate } else { ForwardError::Timeout };
        Self { error, progress: Progress::Final, request: None }
    }

    /// Blames the client if the connection was closed while the gateway had been waiting for the rest of `upload` for
    /// [`MAX_PAUSE`]: upstreams have time limits for it, too.
    pub(super) fn after(self, upload: Option<&UploadProgress>) -> Self {
        if self.progress == Progress::Unknown && upload.is_some_and(|upload| upload.has_waited(MAX_PAUSE)) {
            return Self { error: ForwardError::BodyTooLate, progress: Progress::Final, request: None };
        }
        self
    }
}

impl ExchangeError {
    /// Returns the error of an exchange on `connection`.
    pub(super) fn http1(error: Http1Error, connection: &mut Http1Connection) -> Self {
        let progress = match &error {
            Http1Error::Unsent => Progress::Unprocessed,
            Http1Error::RequestBody(_) => Progress::Final,
            error if error.is_invalid_response() => Progress::Final,
            _ => Progress::Unknown,
        };
        let error = match error {
            Http1Error::RequestBody(error) => ForwardError::RequestBody(error),
            error => ForwardError::Exchange(error),
        };
        Self { error, progress, request: connection.take_request() }
    }
}

impl From<SendError> for ExchangeError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Unsent(request, error) => {
                Self { error: ForwardError::Stream(error), progress: Progress::Unprocessed, request: Some(*request) }
            }
            SendError::Body(error) => {
                Self { error: ForwardError::RequestBody(error), progress: Progress::Final, request: None }
            }
            SendError::Stream(error) => {
                let progress = progress(&error);
                let error = match progress {
                    Progress::Unprocessed | Progress::Refused => ForwardError::Refused(error),
                    Progress::Unknown | Progress::Final => ForwardError::Stream(error),
                };
                Self { error, progress, request: None }
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
            http1.start(request, relay);
            let head = poll_fn(|cx| http1.poll_head(cx).map_err(|error| ExchangeError::http1(error, http1)));
            let response = response_head(head, &mut connection.deadline, timeout, upload).await;
            response.map(|response| response.map(|()| Incoming::Http1))
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
    connection.deadline.clear();
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

/// Attempts beyond the first for a request that upstreams certainly did not process.
const MAX_UNPROCESSED: u32 = 8;
/// Attempts beyond the first for a request whose stream was refused. An upstream that refuses may be overloaded.
const MAX_REFUSED: u32 = 2;

/// Knowledge about a request whose exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No byte of it was written, or the upstream's GOAWAY named an earlier stream as the last one (RFC 9113 §6.8).
    Unprocessed,
    /// The upstream reset the stream with `REFUSED_STREAM` (RFC 9113 §8.7).
    Refused,
    /// The connection closed before the response: the upstream may have processed it.
    Unknown,
    /// The upstream sent an invalid response, or none in time. The next one would be the same.
    Final,
}

/// Further attempts of one request so far.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    unprocessed: u32,
    refused: u32,
    unknown: u32,
}

impl Repeats {
    /// Returns true if the request may be sent again. A request that the upstream may have processed is repeated once,
    /// if it `is_idempotent` (RFC 9110 §9.2.2).
    pub(super) fn allow(&mut self, progress: Progress, is_idempotent: bool) -> bool {
        let (count, max) = match progress {
            Progress::Unprocessed => (&mut self.unprocessed, MAX_UNPROCESSED),
            Progress::Refused => (&mut self.refused, MAX_REFUSED),
            Progress::Unknown => (&mut self.unknown, u32::from(is_idempotent)),
            Progress::Final => return false,
        };
        *count += 1;
        *count <= max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(progress: Progress, is_idempotent: bool) -> usize {
        let mut repeats = Repeats::default();
        (1..).find(|_| !repeats.allow(progress, is_idempotent)).unwrap_or_default()
    }

    #[test]
    fn unprocessed_requests_are_repeated_whatever_their_method_and_others_once_if_idempotent() {
        for is_idempotent in [false, true] {
            assert_eq!(attempts(Progress::Unprocessed, is_idempotent), 9);
            assert_eq!(attempts(Progress::Refused, is_idempotent), 3);
            assert_eq!(attempts(Progress::Final, is_idempotent), 1);
        }
        assert_eq!((attempts(Progress::Unknown, false), attempts(Progress::Unknown, true)), (1, 2));
    }
}
