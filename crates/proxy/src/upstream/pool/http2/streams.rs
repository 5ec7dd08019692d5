//! Streams of one HTTP/2 connection.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use http_body::Body as _;

use crate::http::body::Body;
use crate::upstream::interim::InterimRelay;
use crate::upstream::pool::http2::connect::MAX_STREAMS;
use crate::upstream::pool::http2::exchange::{ResponseHead, SendError, prepare_fields};
use crate::upstream::pool::http2::upload::UploadTask;
use crate::upstream::pool::waiting::WaitingRequests;
use crate::upstream::pool::watch::ConnectionEvents;

/// Streams of one connection, which ends after the last of them when the pool has dropped it.
#[derive(Debug)]
pub(in crate::upstream) struct Streams {
    sender: SendRequest<Bytes>,
    open: Cell<usize>,
    watched: Arc<ConnectionEvents>,
    /// Largest size of a response's fields.
    max_head_bytes: usize,
    /// Requests that wait for a stream of any connection of the pool.
    waiting: Rc<WaitingRequests>,
    /// Second of the pool's clock in which the last stream ended.
    pub(super) idle_since: Cell<u64>,
}

/// Open stream, counted until it is dropped and its upload has ended.
#[derive(Debug)]
pub struct OpenStream {
    streams: Rc<Streams>,
    /// Shared with the task that sends the rest of the request body.
    upload: Option<Rc<()>>,
}

impl Streams {
    /// Returns the streams that `sender` opens.
    pub(super) fn new(
        sender: SendRequest<Bytes>,
        watched: Arc<ConnectionEvents>,
        max_head_bytes: usize,
        waiting: Rc<WaitingRequests>,
    ) -> Rc<Self> {
        Rc::new(Self { sender, open: Cell::new(0), watched, max_head_bytes, waiting, idle_since: Cell::new(0) })
    }

    /// Returns true if no stream is open.
    pub(super) fn is_idle(&self) -> bool {
        self.open.get() == 0
    }

    /// Returns true if bytes have been read since the latest call.
    pub(super) fn take_read(&self) -> bool {
        self.watched.take_read()
    }

    /// Returns true if the connection takes further requests: it is open, and the upstream sent no GOAWAY.
    pub(super) fn is_usable(&self) -> bool {
        !self.watched.is_going_away()
    }

    /// Returns true if a further stream stays within [`MAX_STREAMS`] and the server's current
    /// `SETTINGS_MAX_CONCURRENT_STREAMS`.
    pub(super) fn has_room(&self) -> bool {
        self.open.get() < self.sender.current_max_send_streams().min(MAX_STREAMS)
    }

    /// Opens a stream.
    pub(super) fn open(self: &Rc<Self>) -> OpenStream {
        self.open.set(self.open.get() + 1);
        self.watched.count_request();
        OpenStream { streams: Rc::clone(self), upload: None }
    }
}

impl OpenStream {
    /// Gives the connection no further request: the upstream is closing it.
    pub fn retire(&self) {
        self.streams.watched.retire();
    }

    /// Returns true if its connection takes further requests.
    pub(in crate::upstream) fn is_usable(&self) -> bool {
        self.streams.is_usable()
    }

    /// Sends the request. Interim responses go to `relay`. The start of the body is sent at once, and the rest by a task.
    pub(in crate::upstream) fn send(
        &mut self,
        request: Request<Body>,
        relay: Option<InterimRelay>,
    ) -> Result<ResponseHead, SendError> {
        // A new handle waits for no other stream.
        let mut sender = self.streams.sender.clone();
        if let Poll::Ready(Err(error)) = sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
            return Err(SendError::Unsent(Box::new(request), error));
        }
        let (mut head, body) = request.into_parts();
        prepare_fields(&mut head, &body);
        let is_empty = body.is_end_stream();
        let (response, stream) =
            sender.send_request(Request::from_parts(head, ()), is_empty).map_err(SendError::Stream)?;
        let upload = if is_empty { None } else { UploadTask::start(body, stream, || self.share()) };
        Ok(ResponseHead::new(response, relay, upload, self.streams.max_head_bytes))
    }

    /// Returns a second handle of the stream.
    fn share(&mut self) -> Self {
        let upload = Rc::clone(self.upload.get_or_insert_default());
        Self { streams: Rc::clone(&self.streams), upload: Some(upload) }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if self.upload.as_ref().is_some_and(|upload| Rc::strong_count(upload) > 1) {
            return;
        }
        self.streams.open.set(self.streams.open.get().saturating_sub(1));
        self.streams.waiting.wake_first();
    }
}
