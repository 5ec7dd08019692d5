//! Request body of a client.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::http::body::upload::{UploadFailure, UploadProgress};
use crate::http::body::{BodyError, Incoming};
use crate::http::deadline::Deadline;
use crate::http::handler::BusyGuard;
use crate::http::trailers::TrailerRules;
use tollgate_transport::executor::spawn_boxed;

/// Bytes of an unread body that are read and discarded, so that the connection can be reused. Past this limit an HTTP/1
/// connection takes no further request, and an HTTP/2 stream is reset.
const DRAIN_BYTES: u64 = 256 * 1024;
/// Time for the rest of a body that was received before the client closed its sending side.
const END_GRACE: Duration = Duration::from_millis(100);
/// Time limit for discarding an unread body.
const DRAIN_TIME: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct ClientBody {
    incoming: Option<Incoming>,
    stall: Deadline,
    timeout: Option<Duration>,
    drains: bool,
    trailer_rules: Rc<TrailerRules>,
    has_ended: bool,
    upload: Rc<UploadProgress>,
    busy: Option<BusyGuard>,
}

impl ClientBody {
    pub(super) fn new(
        incoming: Incoming,
        timeout: Option<Duration>,
        drains: bool,
        trailer_rules: Rc<TrailerRules>,
        busy: BusyGuard,
    ) -> Self {
        let upload = Rc::new(UploadProgress::new(timeout.is_some()));
        Self {
            incoming: Some(incoming),
            stall: Deadline::default(),
            timeout,
            drains,
            trailer_rules,
            has_ended: false,
            upload,
            busy: Some(busy),
        }
    }

    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
        self.upload.set_timed(timeout.is_some());
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
                self.upload.arrived(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => self.fail(BodyError::Client(error)),
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.upload.waits();
                let error = ready!(self.poll_stalled(cx));
                self.fail(error)
            }
        }
    }

    /// Completes when the client has sent nothing for too long.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let has_ended = self.busy.as_ref().is_some_and(|busy| busy.connection().poll_client_end(cx));
        let timeout = if has_ended { Some(END_GRACE) } else { self.timeout };
        let Some(timeout) = timeout else { return Poll::Pending };
        let has_just_ended = has_ended && !std::mem::replace(&mut self.has_ended, true);
        if has_just_ended || !self.stall.is_set() {
            self.stall.set(Instant::now() + timeout);
        }
        loop {
            ready!(self.stall.poll_expired(cx));
            match self.upload.excused_until(timeout) {
                Some(until) if !has_ended => self.stall.set(until),
                _ => break,
            }
        }
        Poll::Ready(if has_ended { BodyError::ClientEnded } else { BodyError::ClientStalled })
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.upload.fail(match error {
            BodyError::ClientStalled => UploadFailure::TimedOut,
            _ => UploadFailure::Broken,
        });
        if let Some(busy) = &self.busy {
            busy.connection().end_reads();
        }
        self.finish();
        Poll::Ready(Some(Err(error)))
    }

    fn finish(&mut self) {
        self.upload.arrived(0);
        self.upload.end();
        self.incoming = None;
        self.busy = None;
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        self.upload.end();
        let (Some(incoming), Some(busy)) = (self.incoming.take(), self.busy.take()) else { return };
        if incoming.is_end_stream() {
            return;
        }
        let is_http1 = matches!(incoming, Incoming::Http1(_));
        // An HTTP/2 client may lose a response that a reset follows at once.
        let limit = if is_http1 && incoming.size_hint().lower() > DRAIN_BYTES { 0 } else { DRAIN_BYTES };
        if !self.drains || limit == 0 {
            busy.connection().end_reads();
        }
        if self.drains {
            spawn_boxed(async move {
                if !matches!(tokio::time::timeout(DRAIN_TIME, drain(incoming, limit, &busy)).await, Ok(true)) {
                    busy.connection().end_reads();
                }
            });
        }
    }
}

/// Discards the rest of a body. Returns true at its end, and false past `limit` bytes. Over HTTP/1 it goes on while the
/// response is being written, since a client may read that when it has sent everything.
async fn drain(mut incoming: Incoming, limit: u64, busy: &BusyGuard) -> bool {
    let mut count = 0;
    loop {
        match incoming.frame().await {
            Some(Ok(frame)) => count += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(_)) => return false,
            None => return true,
        }
        if count > limit && (matches!(incoming, Incoming::Http2(_)) || busy.connection().is_last()) {
            return false;
        }
    }
}
