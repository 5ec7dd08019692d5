//! Socket of a client connection, with the timeouts that apply to the client.

mod writes;

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::http::deadline::Deadline;
use crate::http::handler::ConnectionHandle as _;
use crate::http::read_gate::{GatedReader, ReadGate};
use crate::http::sockets::part;
use crate::server::activity::{Activity, ClientTimeouts};
use crate::server::request_line::RequestLine;
use crate::server::stream::ClientStream;

/// Bytes that are read at once, at most.
const MAX_READ: u64 = part(64 * 1024) as u64;
/// Bytes of further requests that are read while the gateway watches for the client's end.
const READ_AHEAD: usize = 512;

/// Client socket that fails with [`io::ErrorKind::TimedOut`] when the client exceeds a [timeout](ClientTimeouts).
///
/// It has one lazily armed timer for each direction. hyper's timer per request would cost 1,500 instructions.
#[derive(Debug)]
pub struct ClientIo {
    stream: ClientStream,
    gate: ReadGate,
    /// Bytes that were read from the stream before.
    received: Bytes,
    /// True if hyper waits for bytes: its last read found none.
    is_awaited: bool,
    activity: Arc<Activity>,
    timeouts: ClientTimeouts,
    half_close: bool,
    has_ended: bool,
    /// True if a response was due when the end was last hidden.
    is_due: bool,
    /// Request line of the head that is being read. HTTP/1 only.
    line: RequestLine,
    /// True if a refusal of hyper was not written: the caller writes one that says why.
    has_withheld: bool,
    /// Interim responses that are being written, before further bytes of hyper.
    interim: Bytes,
    read_deadline: Deadline,
    /// True if the timer of `read_deadline` was armed for an idle connection: it fires soon.
    fires_soon: bool,
    write_deadline: Deadline,
}

impl ClientIo {
    /// Wraps a connection of which `received` was read before. If `half_close`, the end of the client's sending side is
    /// reported when its requests have been answered.
    #[must_use]
    pub fn new(
        stream: ClientStream,
        received: Bytes,
        activity: Arc<Activity>,
        timeouts: ClientTimeouts,
        half_close: bool,
    ) -> Self {
        let (read_deadline, write_deadline) = (Deadline::default(), Deadline::default());
        let mut line = if activity.is_http1() { RequestLine::first() } else { RequestLine::default() };
        let received =
            if received.is_empty() { None } else { line.read(&received, false) }.map_or(received, Bytes::from);
        Self {
            stream,
            gate: ReadGate::default(),
            received,
            is_awaited: false,
            activity,
            timeouts,
            half_close,
            has_ended: false,
            is_due: false,
            line,
            has_withheld: false,
            interim: Bytes::new(),
            read_deadline,
            fires_soon: false,
            write_deadline,
        }
    }

    /// Returns a stream that begins with `received`, which hyper has read before.
    #[must_use]
    pub(super) fn with_received(mut self, received: Bytes) -> Self {
        self.put_back(received);
        self
    }

    /// Puts bytes that were read in front of those that were received.
    fn put_back(&mut self, read: Bytes) {
        self.received = if self.received.is_empty() { read } else { [&*read, &*self.received].concat().into() };
    }

    /// Returns true if bytes were received that hyper has not read.
    pub(super) fn has_received(&self) -> bool {
        !self.received.is_empty()
    }

    /// Returns the connection.
    #[must_use]
    pub fn into_stream(self) -> ClientStream {
        self.stream
    }

    /// Returns true if a refusal of hyper was not written.
    pub(super) fn has_withheld(&self) -> bool {
        self.has_withheld
    }

    /// Encodes bytes of the request line that hyper refuses, among those that were read behind `before`.
    fn encode_line(&mut self, buf: &mut ReadBuf<'_>, before: usize) {
        let was_idle = self.activity.received();
        if let Some(encoded) = self.line.read(&buf.filled()[before..], was_idle) {
            buf.set_filled(before);
            self.received = encoded.into();
            self.pass_received(buf);
        }
    }

    fn pass_received(&mut self, buf: &mut ReadBuf<'_>) {
        buf.put_slice(&self.received.split_to(self.received.len().min(buf.remaining())));
    }

    /// Returns true while the end of the client's sending side is not reported: a response is due. A request body that
    /// the end cuts fails by [`Activity::client_ended`]. `h2` reports requests only when it has read all bytes, so the
    /// end is reported in a later turn of the task.
    fn hides_end(&mut self, cx: &Context<'_>) -> bool {
        let is_first = !std::mem::replace(&mut self.has_ended, true);
        if is_first && !self.activity.is_http1() {
            cx.waker().wake_by_ref();
            return true;
        }
        self.activity.watch(cx);
        let is_due = self.activity.client_ended();
        // `h2` reads before it writes: the last frame of a response is written in the turn after the response has ended.
        let was_due = std::mem::replace(&mut self.is_due, is_due);
        if was_due && !is_due && !self.activity.is_http1() {
            cx.waker().wake_by_ref();
            return true;
        }
        is_due
    }

    /// Completes when a read timeout has passed. Parks an idle connection before that.
    ///
    /// Between two requests that follow each other closely, the clock is not read: the timer of an earlier pause is armed,
    /// and the idle time begins when it fires.
    fn poll_read_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.activity.is_undated() && self.fires_soon && self.read_deadline.is_armed(cx) {
            return Poll::Pending;
        }
        loop {
            // While a response is being written, the next request is not due.
            match self.activity.read_deadline(&self.timeouts).filter(|_| !self.write_deadline.is_set()) {
                Some(at) => {
                    self.read_deadline.set(at);
                    self.fires_soon = self.activity.is_idle();
                }
                None => self.read_deadline.clear(),
            }
            ready!(self.read_deadline.poll_expired(cx));
            if !self.activity.park() {
                return Poll::Ready(());
            }
        }
    }

    /// Reads from the socket. A hidden end is not reported.
    fn poll_socket(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let reader = GatedReader(&mut self.stream, &mut self.gate);
        let progress = ready!(Pin::new(&mut reader.take(MAX_READ)).poll_read(cx, buf));
        let is_end = progress.is_ok() && buf.filled().len() == before;
        if is_end && self.half_close && self.hides_end(cx) {
            return Poll::Pending;
        }
        self.encode_line(buf, before);
        Poll::Ready(progress)
    }

    /// Fails when the client has closed the connection in the middle of a request. hyper does not read before the response
    /// has ended: it would take a new buffer for that, since fields of the request point into the one that it has.
    fn poll_client_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        // hyper reads the body of a request itself, in larger parts.
        let is_read = self.activity.is_http1() && self.activity.is_last() && !self.activity.ends_reads();
        if self.is_awaited || self.has_received() || !is_read || !self.activity.is_responding() {
            return Poll::Pending;
        }
        let mut bytes = [MaybeUninit::uninit(); READ_AHEAD];
        let mut read = ReadBuf::uninit(&mut bytes);
        match ready!(self.poll_socket(cx, &mut read)) {
            Ok(()) if read.filled().is_empty() => Poll::Ready(io::ErrorKind::UnexpectedEof.into()),
            Ok(()) => {
                self.put_back(Bytes::copy_from_slice(read.filled()));
                Poll::Pending
            }
            Err(error) => Poll::Ready(error),
        }
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl AsyncRead for ClientIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.received.is_empty() {
            this.pass_received(buf);
            this.activity.received();
            return Poll::Ready(Ok(()));
        }
        let progress = this.poll_socket(cx, buf);
        this.is_awaited = progress.is_pending();
        if progress.is_ready() {
            return progress;
        }
        if !this.activity.is_http1() {
            this.activity.watch(cx);
        }
        ready!(this.poll_read_timeout(cx));
        Poll::Ready(Err(timed_out("the client sent no request in time")))
    }
}
