//! Socket of a client connection, with the timeouts that apply to the client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::http::busy::BusyCount;
use crate::http::deadline::Deadline;
use crate::server::stream::ClientStream;

/// Timeouts for a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimeouts {
    /// For a whole request head, from its first byte, or from the start of the connection for the first request.
    pub header: Duration,
    /// Between the end of a response and the first byte of the next request.
    pub idle: Duration,
    /// Without reading a single byte of a response.
    pub write: Duration,
}

/// State of a connection, written by its requests and read by its socket: it decides which timeout applies to a silent
/// client.
///
/// The fields are relaxed atomics because hyper requires an upgradable socket to be `Send`. A single thread uses them.
#[derive(Debug)]
pub struct Activity {
    epoch: Instant,
    phase: AtomicU8,
    in_flight: AtomicU32,
    since_us: AtomicU64,
    is_tunnel: AtomicU8,
    /// 1 from the moment that the socket accepts no more bytes until all bytes have been written.
    write_blocked: AtomicU8,
    /// HTTP/1: bytes between two requests belong to the next head. HTTP/2 has other frames to send.
    http1: bool,
}

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const HEAD_TIMED: u8 = 2;
const BUSY: u8 = 3;
const PARKED: u8 = 4;

/// Idle time after which a connection releases its buffers. It is long enough that the next request of a busy client
/// finds them in place.
const PARK_AFTER: Duration = Duration::from_millis(100);

impl Activity {
    /// Creates the state of an accepted connection, which waits for its first request head.
    #[must_use]
    pub fn new(now: Instant, http1: bool) -> Arc<Self> {
        Arc::new(Self {
            epoch: now,
            phase: AtomicU8::new(HEAD_TIMED),
            in_flight: AtomicU32::new(0),
            since_us: AtomicU64::new(0),
            is_tunnel: AtomicU8::new(0),
            write_blocked: AtomicU8::new(0),
            http1,
        })
    }

    /// Removes all read timeouts: both sides of a tunnel may be silent.
    pub fn set_tunnel(&self) {
        self.is_tunnel.store(1, Relaxed);
    }

    /// True while the client does not take the bytes that were sent to it. No more of the response should be read then.
    #[must_use]
    pub fn is_write_blocked(&self) -> bool {
        self.write_blocked.load(Relaxed) != 0
    }

    /// Parks an idle connection. Returns false if it was not idle.
    fn park(&self) -> bool {
        self.phase.compare_exchange(IDLE, PARKED, Relaxed, Relaxed).is_ok()
    }

    /// True if the connection has been idle for long enough to release its buffers.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.phase.load(Relaxed) == PARKED
    }

    fn mark(&self, phase: u8, since: Instant) {
        let us = since.saturating_duration_since(self.epoch).as_micros();
        self.since_us.store(u64::try_from(us).unwrap_or(u64::MAX), Relaxed);
        self.phase.store(phase, Relaxed);
    }

    fn received(&self) {
        if self.http1 && matches!(self.phase.load(Relaxed), IDLE | PARKED) {
            self.phase.store(HEAD, Relaxed);
        }
    }

    /// Returns the time at which a client that sends nothing more runs into a timeout.
    fn read_deadline(&self, timeouts: &ClientTimeouts) -> Option<Instant> {
        if self.is_tunnel.load(Relaxed) != 0 {
            return None;
        }
        let since = |this: &Self| this.epoch + Duration::from_micros(this.since_us.load(Relaxed));
        match self.phase.load(Relaxed) {
            IDLE => Some(since(self) + timeouts.idle.min(PARK_AFTER)),
            PARKED => Some(since(self) + timeouts.idle),
            HEAD => {
                self.mark(HEAD_TIMED, Instant::now());
                Some(since(self) + timeouts.header)
            }
            HEAD_TIMED => Some(since(self) + timeouts.header),
            _ => None,
        }
    }
}

/// While a request body is unread or a response unwritten, no read timeout applies and bytes from the client are not
/// the next request.
impl BusyCount for Activity {
    fn acquire(&self) {
        self.in_flight.store(self.in_flight.load(Relaxed) + 1, Relaxed);
        self.phase.store(BUSY, Relaxed);
    }

    fn release(&self) {
        let left = self.in_flight.load(Relaxed).saturating_sub(1);
        self.in_flight.store(left, Relaxed);
        if left == 0 {
            self.mark(IDLE, Instant::now());
        }
    }
}

/// Client socket that fails with [`io::ErrorKind::TimedOut`] when the client exceeds a [timeout](ClientTimeouts).
///
/// It has one lazily armed timer for each direction. hyper's timer per request would cost 1,500 instructions.
#[derive(Debug)]
pub struct ClientIo {
    stream: ClientStream,
    /// Bytes that were read from the stream before.
    received: Bytes,
    activity: Arc<Activity>,
    timeouts: ClientTimeouts,
    read_deadline: Deadline,
    write_deadline: Deadline,
}

impl ClientIo {
    /// Wraps a connection of which `received` was read before.
    #[must_use]
    pub fn new(stream: ClientStream, received: Bytes, activity: Arc<Activity>, timeouts: ClientTimeouts) -> Self {
        let (read_deadline, write_deadline) = (Deadline::default(), Deadline::default());
        Self { stream, received, activity, timeouts, read_deadline, write_deadline }
    }

    /// Returns the connection.
    #[must_use]
    pub fn into_stream(self) -> ClientStream {
        self.stream
    }

    /// Completes when a read timeout has passed. Parks an idle connection before that.
    fn poll_read_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // While a response is being written, the next request is not due.
            match self.activity.read_deadline(&self.timeouts).filter(|_| !self.write_deadline.is_set()) {
                Some(at) => self.read_deadline.set(at),
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

    fn track_write<T>(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.write_deadline.clear();
        } else {
            self.activity.write_blocked.store(1, Relaxed);
            if self.is_write_stalled(cx) {
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
            buf.put_slice(&this.received.split_to(this.received.len().min(buf.remaining())));
            this.activity.received();
            return Poll::Ready(Ok(()));
        }
        let progress = Pin::new(&mut this.stream).poll_read(cx, buf);
        if progress.is_ready() {
            this.activity.received();
            return progress;
        }
        ready!(this.poll_read_timeout(cx));
        Poll::Ready(Err(timed_out("the client sent no request in time")))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.track_write(cx, progress)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.track_write(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // TLS buffers what the socket does not accept.
        let progress = Pin::new(&mut this.stream).poll_flush(cx);
        ready!(this.track_write(cx, progress))?;
        // hyper flushes the socket when its own buffer is empty. The response may go on, in the next turn of the task.
        if this.activity.is_write_blocked() {
            this.activity.write_blocked.store(0, Relaxed);
            cx.waker().wake_by_ref();
        }
        // After a response hyper does not read until the socket wakes it, so the idle time starts here.
        Poll::Ready(match this.poll_read_timeout(cx) {
            Poll::Ready(()) => Err(timed_out("the client sent no request in time")),
            Poll::Pending => Ok(()),
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.track_write(cx, progress)
    }
}
