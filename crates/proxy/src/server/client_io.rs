//! Socket of a client connection, with the timeouts that apply to the client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::http::deadline::Deadline;
use crate::http::read_gate::{GatedReader, ReadGate};
use crate::http::sockets::part;
use crate::server::activity::{Activity, ClientTimeouts};
use crate::server::interim_heads::add_interim_heads;
use crate::server::request_line::RequestLine;
use crate::server::stream::ClientStream;

/// Bytes that are read at once, at most.
const MAX_READ: u64 = part(64 * 1024) as u64;

/// Start of the responses with which hyper refuses heads that it cannot read.
const OWN_REFUSAL: &[u8] = b"HTTP/1.1 4";

/// Client socket that fails with [`io::ErrorKind::TimedOut`] when the client exceeds a [timeout](ClientTimeouts).
///
/// It has one lazily armed timer for each direction. hyper's timer per request would cost 1,500 instructions.
#[derive(Debug)]
pub struct ClientIo {
    stream: ClientStream,
    gate: ReadGate,
    /// Bytes that were read from the stream before.
    received: Bytes,
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
        self.received = if self.received.is_empty() { received } else { [received, self.received].concat().into() };
        self
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

    /// Returns true for the start of a response that hyper makes itself, because it cannot read a head.
    fn withholds(&mut self, bytes: &[u8]) -> bool {
        self.has_withheld |= bytes.starts_with(OWN_REFUSAL) && !self.activity.is_responding();
        self.has_withheld
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

    fn is_write_stalled(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.write_deadline.is_set() {
            self.write_deadline.set(Instant::now() + self.timeouts.write);
        }
        self.write_deadline.poll_expired(cx).is_ready()
    }

    /// Writes interim responses to their end. Bytes of hyper follow.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let progress = Pin::new(&mut self.stream).poll_write(cx, &self.interim);
            match ready!(self.track_write(cx, progress))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.interim.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Completes when hyper may write: the interim responses before its bytes have been written.
    fn poll_may_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.activity.interim().has_waiting() {
            self.interim = add_interim_heads(&self.interim, &self.activity.interim().take_last());
        }
        self.activity.writing();
        self.poll_interim(cx)
    }

    fn track_write<T>(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.write_deadline.clear();
        } else {
            let is_stalled = self.is_write_stalled(cx);
            self.activity.set_write_blocked(is_stalled);
            if is_stalled {
                return Poll::Ready(Err(timed_out("the client stopped reading the response")));
            }
        }
        progress
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
        let before = buf.filled().len();
        let reader = GatedReader(&mut this.stream, &mut this.gate);
        let progress = Pin::new(&mut reader.take(MAX_READ)).poll_read(cx, buf);
        if progress.is_ready() {
            let is_end = matches!(progress, Poll::Ready(Ok(()))) && buf.filled().len() == before;
            if is_end && this.half_close && this.hides_end(cx) {
                return Poll::Pending;
            }
            this.encode_line(buf, before);
            return progress;
        }
        if !this.activity.is_http1() {
            this.activity.watch(cx);
        }
        ready!(this.poll_read_timeout(cx));
        Poll::Ready(Err(timed_out("the client sent no request in time")))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.withholds(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(this.poll_may_write(cx))?;
        let progress = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.track_write(cx, progress)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.withholds(bufs.first().map_or(&[][..], |first| &**first)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        ready!(this.poll_may_write(cx))?;
        let progress = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.track_write(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // hyper flushes the socket when its own buffer is empty: no message is half-written.
        if this.activity.interim().has_waiting() {
            this.interim = add_interim_heads(&this.interim, &this.activity.interim().take());
        }
        ready!(this.poll_interim(cx))?;
        // TLS buffers what the socket does not accept.
        let progress = Pin::new(&mut this.stream).poll_flush(cx);
        ready!(this.track_write(cx, progress))?;
        this.activity.all_written();
        // After a response hyper does not read until the socket wakes it, so the idle time starts here.
        Poll::Ready(match this.poll_read_timeout(cx) {
            Poll::Ready(()) => Err(timed_out("the client sent no request in time")),
            Poll::Pending => Ok(()),
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.has_withheld {
            return Poll::Ready(Ok(()));
        }
        let progress = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.track_write(cx, progress)
    }
}
