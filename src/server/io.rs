//! The client's connection, with the three times a client may make us wait.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::http::deadline::Deadline;
use crate::server::stream::ClientStream;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a whole request head, from its first byte (from the connection's start for the first one): slowloris.
    pub header: Duration,
    /// Between the end of an answer and the next request's first byte.
    pub idle: Duration,
    /// Without taking a single byte of what we write.
    pub write: Duration,
}

/// What a connection is doing, told by its requests and read by its socket: what a silent client is being silent in.
///
/// Relaxed atomics because hyper asks that an upgradable socket be `Send`; in truth one thread uses it.
#[derive(Debug)]
pub struct Activity {
    epoch: Instant,
    phase: AtomicU8,
    in_flight: AtomicU32,
    since_us: AtomicU64,
    forever: AtomicU8,
    /// HTTP/1: bytes between two requests are the next one's head. HTTP/2 has other frames to send.
    http1: bool,
}

/// A part of a request that is still under way: its connection is not idle until all are dropped.
#[derive(Debug)]
pub struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.ended(Instant::now());
    }
}

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const HEAD_TIMED: u8 = 2;
const BUSY: u8 = 3;
const PARKED: u8 = 4;

/// How long a connection is idle before what it holds is let go of. Long enough that a busy client's next request finds
/// everything in place.
const PARK_AFTER: Duration = Duration::from_millis(100);

impl Activity {
    /// A connection just accepted: its first request head is due.
    #[must_use]
    pub fn new(now: Instant, http1: bool) -> Arc<Self> {
        Arc::new(Self {
            epoch: now,
            phase: AtomicU8::new(HEAD_TIMED),
            in_flight: AtomicU32::new(0),
            since_us: AtomicU64::new(0),
            forever: AtomicU8::new(0),
            http1,
        })
    }

    /// A request's head was read in full, or there is a body to read: until that has been done, and the answer written,
    /// the client owes nothing here, and what it sends is not the next request.
    #[must_use]
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.in_flight.store(self.in_flight.load(Relaxed) + 1, Relaxed);
        self.phase.store(BUSY, Relaxed);
        Busy(Arc::clone(self))
    }

    fn ended(&self, now: Instant) {
        let left = self.in_flight.load(Relaxed).saturating_sub(1);
        self.in_flight.store(left, Relaxed);
        if left == 0 {
            self.mark(IDLE, now);
        }
    }

    /// The connection became a tunnel: from now on both sides may be silent as long as they like.
    pub fn tunnelled(&self) {
        self.forever.store(1, Relaxed);
    }

    /// Parks an idle connection; false where it was not idle.
    fn park(&self) -> bool {
        self.phase.compare_exchange(IDLE, PARKED, Relaxed, Relaxed).is_ok()
    }

    /// Whether the connection has been idle for long enough that holding on to its buffers is a waste.
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

    /// When a client that sends nothing from now on has been silent for too long.
    fn read_deadline(&self, patience: &Patience) -> Option<Instant> {
        if self.forever.load(Relaxed) != 0 {
            return None;
        }
        let since = |this: &Self| this.epoch + Duration::from_micros(this.since_us.load(Relaxed));
        match self.phase.load(Relaxed) {
            IDLE => Some(since(self) + patience.idle.min(PARK_AFTER)),
            PARKED => Some(since(self) + patience.idle),
            HEAD => {
                self.mark(HEAD_TIMED, Instant::now());
                Some(since(self) + patience.header)
            }
            HEAD_TIMED => Some(since(self) + patience.header),
            _ => None,
        }
    }
}

/// A client's connection that ends with [`io::ErrorKind::TimedOut`] when the client exhausts our [`Patience`].
///
/// One lazily armed timer each way instead of hyper's timer entry per request (1,500 instructions).
#[derive(Debug)]
pub struct ClientIo {
    stream: ClientStream,
    /// Read from it already.
    received: Bytes,
    activity: Arc<Activity>,
    patience: Patience,
    read_deadline: Deadline,
    write_deadline: Deadline,
}

impl ClientIo {
    /// Wraps a connection of which `received` has been read already.
    #[must_use]
    pub fn new(stream: ClientStream, received: Bytes, activity: Arc<Activity>, patience: Patience) -> Self {
        let (read_deadline, write_deadline) = (Deadline::default(), Deadline::default());
        Self { stream, received, activity, patience, read_deadline, write_deadline }
    }

    /// The connection as it carries bytes.
    #[must_use]
    pub fn into_stream(self) -> ClientStream {
        self.stream
    }

    /// Ready once the client has been silent for too long; parks the connection on the way there.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // While an answer is still being written, the client is not late with its next request.
            match self.activity.read_deadline(&self.patience).filter(|_| !self.write_deadline.is_set()) {
                Some(at) => self.read_deadline.set(at),
                None => self.read_deadline.clear(),
            }
            ready!(self.read_deadline.poll_expired(cx));
            if !self.activity.park() {
                return Poll::Ready(());
            }
        }
    }

    fn stalled(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.write_deadline.is_set() {
            self.write_deadline.set(Instant::now() + self.patience.write);
        }
        self.write_deadline.poll_expired(cx).is_ready()
    }

    fn written<T>(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.write_deadline.clear();
        } else if self.stalled(cx) {
            return Poll::Ready(Err(timed_out("the client stopped reading the answer")));
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
        ready!(this.poll_silence(cx));
        Poll::Ready(Err(timed_out("the client sent no request in time")))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.written(cx, progress)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.written(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // TLS keeps what the socket does not take.
        let progress = Pin::new(&mut this.stream).poll_flush(cx);
        ready!(this.written(cx, progress))?;
        // hyper does not read again after an answer until the socket wakes it: here the idle time starts to run.
        Poll::Ready(match this.poll_silence(cx) {
            Poll::Ready(()) => Err(timed_out("the client sent no request in time")),
            Poll::Pending => Ok(()),
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.written(cx, progress)
    }
}
