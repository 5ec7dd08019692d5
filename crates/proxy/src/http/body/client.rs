//! Request body of a client.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::http::body::{BodyError, Incoming};
use crate::http::busy::BusyGuard;
use crate::http::deadline::Deadline;
use crate::http::trailers::TrailerRules;
use tollgate_transport::executor::spawn_boxed;

/// Bytes of an unread body that are read and discarded, so that the connection can be reused or the client reads the
/// response before the socket closes. Past this limit the connection is closed.
const DRAIN_BYTES: u64 = 256 * 1024;
/// Time for the rest of a body that was received before the client closed its sending side.
const END_GRACE: Duration = Duration::from_millis(100);
/// Time limit for discarding an unread body.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Progress of a client's upload. The response timeout of an upstream does not run while the upload makes progress.
#[derive(Debug, Default)]
pub struct UploadProgress {
    last: Cell<Option<Instant>>,
    bytes: Cell<u64>,
}

impl UploadProgress {
    /// Returns the arrival time of the latest frame; `None` before the first.
    #[must_use]
    pub fn last_progress(&self) -> Option<Instant> {
        self.last.get()
    }

    /// Returns the bytes of the body that have been read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}

#[derive(Debug)]
pub(super) struct ClientBody {
    incoming: Option<Incoming>,
    stall: Deadline,
    timeout: Duration,
    drains: bool,
    trailer_rules: Rc<TrailerRules>,
    has_ended: bool,
    upload: Rc<UploadProgress>,
    busy: Option<BusyGuard>,
}

impl ClientBody {
    pub(super) fn new(
        incoming: Incoming,
        timeout: Duration,
        drains: bool,
        trailer_rules: Rc<TrailerRules>,
        busy: BusyGuard,
    ) -> Self {
        Self {
            incoming: Some(incoming),
            stall: Deadline::default(),
            timeout,
            drains,
            trailer_rules,
            has_ended: false,
            upload: Rc::default(),
            busy: Some(busy),
        }
    }

    pub(super) fn upload(&self) -> Rc<UploadProgress> {
        Rc::clone(&self.upload)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    self.trailer_rules.clean(trailers);
                }
                self.stall.clear();
                self.upload.last.set(Some(Instant::now()));
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.upload.bytes.set(self.upload.bytes.get() + length);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.finish();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let has_ended = self.busy.as_ref().is_some_and(|connection| connection.poll_client_end(cx));
                if has_ended && !self.has_ended {
                    self.has_ended = true;
                    self.stall.set(Instant::now() + END_GRACE);
                } else if !self.stall.is_set() {
                    self.stall.set(Instant::now() + if has_ended { END_GRACE } else { self.timeout });
                }
                ready!(self.stall.poll_expired(cx));
                self.finish();
                Poll::Ready(Some(Err(if has_ended { BodyError::ClientEnded } else { BodyError::ClientStalled })))
            }
        }
    }

    fn finish(&mut self) {
        self.incoming = None;
        self.busy = None;
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take()
            && self.drains
            && !incoming.is_end_stream()
        {
            let busy = self.busy.take();
            spawn_boxed(async move {
                let _ = tokio::time::timeout(DRAIN_TIME, drain(incoming)).await;
                drop(busy);
            });
        }
    }
}

async fn drain(mut incoming: Incoming) {
    let mut left = DRAIN_BYTES;
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        if length > left {
            return;
        }
        left -= length;
    }
}
