//! One request over one connection, up to its answer's head.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::time::Instant;

use crate::http::body::{Body, UploadProgress};
use crate::http::deadline::Deadline;
use crate::upstream::error::ForwardError;
use crate::upstream::pool::{Connection, Sender};

/// Why there is no answer over this connection.
#[derive(Debug)]
pub(super) struct Broken {
    /// The failure.
    pub(super) error: ForwardError,
    /// The request, where not a byte of it was written.
    pub(super) unsent: Option<Request<Body>>,
}

/// Sends the request and waits for the answer's head. An upstream cannot answer what it has not got yet: an `upload`
/// that still flows moves the deadline, which is `patience` from now, on.
pub(super) async fn exchange(
    connection: &mut Connection,
    request: Request<Body>,
    patience: Option<Duration>,
    upload: Option<&UploadProgress>,
) -> Result<Response<Incoming>, Broken> {
    let Connection { sender, deadline, .. } = connection;
    match sender {
        Sender::Http1(sender, head_limit) => {
            head_limit.begin();
            let answer = answered(sender.try_send_request(request), deadline, patience, upload).await;
            if answer.is_ok() {
                head_limit.end();
            }
            answer
        }
        Sender::Http2(sender, _) => {
            Box::pin(answered(sender.try_send_request(request), deadline, patience, upload)).await
        }
    }
}

async fn answered(
    sending: impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>>,
    deadline: &mut Deadline,
    patience: Option<Duration>,
    upload: Option<&UploadProgress>,
) -> Result<Response<Incoming>, Broken> {
    match patience {
        Some(patience) => deadline.set(Instant::now() + patience),
        None => deadline.clear(),
    }
    let mut sending = pin!(sending);
    let answer = poll_fn(|cx| {
        if let Poll::Ready(answer) = sending.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        while deadline.poll_expired(cx).is_ready() {
            let latest = upload.and_then(UploadProgress::last_progress).zip(patience);
            match latest.map(|(latest, patience)| latest + patience).filter(|at| *at > Instant::now()) {
                Some(at) => deadline.set(at),
                None => return Poll::Ready(None),
            }
        }
        Poll::Pending
    })
    .await;
    deadline.clear();
    match answer {
        Some(Ok(response)) => Ok(response),
        Some(Err(mut error)) => {
            let unsent = error.take_message();
            let error = error.into_error();
            let error = if is_refused(&error) { ForwardError::Refused(error) } else { ForwardError::Exchange(error) };
            Err(Broken { error, unsent })
        }
        None => Err(Broken { error: ForwardError::Timeout, unsent: None }),
    }
}

/// Whether the upstream says that it did nothing with the request: it reset the stream with `REFUSED_STREAM`, or went
/// away and named an earlier stream as its last (RFC 9113 §8.7).
fn is_refused(error: &hyper::Error) -> bool {
    let Some(error) = error.source().and_then(|source| source.downcast_ref::<h2::Error>()) else { return false };
    error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
}
