//! State of a client connection, and the timeouts that follow from it.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::http::handler::ConnectionHandle;
use crate::http::interim::{InterimResponses, InterimSender};
use crate::http::upgrade::TunnelClient;

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
/// The fields are relaxed atomics because request extensions must be `Send` and `Sync`. A single thread uses them.
#[derive(Debug)]
pub struct Activity {
    epoch: Instant,
    phase: AtomicU8,
    in_flight: AtomicU32,
    /// 1 after the client closed its sending side.
    has_ended: AtomicU8,
    /// 1 if the rest of a request body is not read.
    ends_reads: AtomicU8,
    /// Task that waits for a request body.
    body_reader: Mutex<Option<Waker>>,
    since_us: AtomicU64,
    is_tunnel: AtomicU8,
    /// Tunnel that waits for the socket.
    tunnel: Mutex<Option<oneshot::Sender<TunnelClient>>>,
    /// 1 while bytes are unwritten that the socket did not accept; 2 if it accepted none in time.
    write_blocked: AtomicU8,
    /// Bytes of the response body that were given to hyper since it last had written everything.
    unwritten: AtomicUsize,
    /// 1 from the moment that a response begins until all bytes have been written.
    responding: AtomicU8,
    /// 1 if more of the response was requested and refused.
    is_held: AtomicU8,
    /// HTTP/1.1: interim responses to the current request.
    interim: InterimResponses,
    /// 1 if the socket has written all of the messages before the final response: an interim response may follow.
    at_boundary: AtomicU8,
    /// Task of the connection, once it asked to be woken when the connection becomes idle.
    task: OnceLock<Waker>,
    /// HTTP/1: bytes between two requests belong to the next head. HTTP/2 has other frames to send.
    http1: bool,
}

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const HEAD_TIMED: u8 = 2;
const BUSY: u8 = 3;
const PARKED: u8 = 4;
/// Idle since a time that was not read.
const UNDATED: u8 = 5;

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
            has_ended: AtomicU8::new(0),
            ends_reads: AtomicU8::new(0),
            body_reader: Mutex::new(None),
            since_us: AtomicU64::new(0),
            is_tunnel: AtomicU8::new(0),
            tunnel: Mutex::new(None),
            write_blocked: AtomicU8::new(0),
            unwritten: AtomicUsize::new(0),
            responding: AtomicU8::new(0),
            is_held: AtomicU8::new(0),
            interim: InterimResponses::default(),
            at_boundary: AtomicU8::new(0),
            task: OnceLock::new(),
            http1,
        })
    }

    /// Returns true if the connection has become a tunnel.
    pub(super) fn is_tunnel(&self) -> bool {
        self.is_tunnel.load(Relaxed) != 0
    }

    /// Returns the tunnel that the connection has become. It waits for the socket.
    pub(super) fn take_tunnel(&self) -> Option<oneshot::Sender<TunnelClient>> {
        self.tunnel.lock().take()
    }

    /// Returns true if no more of the response is requested: the client takes no bytes, or `most` bytes are unwritten.
    pub(super) fn holds_response(&self, most: usize) -> bool {
        let holds = self.write_blocked.load(Relaxed) != 0 || self.unwritten.load(Relaxed) >= most;
        self.is_held.store(u8::from(holds), Relaxed);
        holds
    }

    /// Returns true if a held response can go on.
    pub(super) fn may_go_on(&self) -> bool {
        self.is_held.load(Relaxed) != 0 && self.unwritten.load(Relaxed) == 0 && self.write_blocked.load(Relaxed) == 0
    }

    /// Adds bytes of the response body that were given to hyper.
    pub(super) fn add_unwritten(&self, bytes: usize) {
        self.unwritten.store(self.unwritten.load(Relaxed) + bytes, Relaxed);
    }

    /// Returns the queue of interim responses over HTTP/1.1.
    pub(super) fn interim(&self) -> &InterimResponses {
        &self.interim
    }

    /// Begins a request that may get interim responses. hyper may still have to write an earlier response.
    pub(super) fn open_interim(&self) -> InterimSender {
        self.at_boundary.store(0, Relaxed);
        self.interim.open()
    }

    /// Begins the final response. Interim responses that wait are written before it, unless hyper is in the middle of
    /// another message.
    pub(super) fn close_interim(&self) {
        self.interim.close(self.at_boundary.load(Relaxed) != 0);
    }

    /// Notes that a response begins. hyper's own ones do not.
    pub(super) fn response_begins(&self) {
        self.responding.store(1, Relaxed);
    }

    /// Returns true if bytes that are written may belong to a response or a tunnel.
    pub(super) fn is_responding(&self) -> bool {
        let has_bytes = self.responding.load(Relaxed) != 0 || self.unwritten.load(Relaxed) != 0;
        has_bytes || self.phase.load(Relaxed) == BUSY
    }

    /// Notes that hyper writes bytes.
    pub(super) fn writing(&self) {
        self.at_boundary.store(0, Relaxed);
    }

    /// Notes that hyper has written all bytes.
    pub(super) fn all_written(&self) {
        self.at_boundary.store(1, Relaxed);
        self.responding.store(0, Relaxed);
        self.unwritten.store(0, Relaxed);
        self.write_blocked.store(0, Relaxed);
    }

    /// Notes that the socket accepts no more bytes. If it `is_stalled`, it has accepted none in time.
    pub(super) fn set_write_blocked(&self, is_stalled: bool) {
        self.write_blocked.store(1 + u8::from(is_stalled), Relaxed);
    }

    /// Returns true if the client took no byte in time.
    pub(super) fn is_write_stalled(&self) -> bool {
        self.write_blocked.load(Relaxed) == 2
    }

    /// Returns true if the connection takes no further request, because the rest of a request body is not read.
    pub(super) fn ends_reads(&self) -> bool {
        self.ends_reads.load(Relaxed) != 0
    }

    /// Returns true for HTTP/1.
    pub(super) fn is_http1(&self) -> bool {
        self.http1
    }

    /// Wakes the current task, which is the connection's, whenever the connection becomes idle.
    pub(super) fn watch(&self, cx: &Context<'_>) {
        self.task.get_or_init(|| cx.waker().clone());
    }

    /// Parks an idle connection. Returns false if it was not idle.
    pub(super) fn park(&self) -> bool {
        self.phase.compare_exchange(IDLE, PARKED, Relaxed, Relaxed).is_ok()
    }

    /// Returns true if the connection is idle since a time that was not read. To read the clock takes a hundred instructions.
    pub(super) fn is_undated(&self) -> bool {
        self.phase.load(Relaxed) == UNDATED
    }

    /// Returns true if the connection is idle and not parked yet.
    pub(super) fn is_idle(&self) -> bool {
        self.phase.load(Relaxed) == IDLE
    }

    /// Returns true if the connection has been idle for long enough to release its buffers.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.phase.load(Relaxed) == PARKED
    }

    fn mark(&self, phase: u8) {
        self.since_us.store(u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX), Relaxed);
        self.phase.store(phase, Relaxed);
    }

    /// Notes that bytes were received. Returns true if they begin a request head.
    pub(super) fn received(&self) -> bool {
        let begins = self.http1 && matches!(self.phase.load(Relaxed), IDLE | UNDATED | PARKED);
        if begins {
            self.phase.store(HEAD, Relaxed);
        }
        begins
    }

    /// Notes that the client has closed its sending side. Returns true if requests of it are in progress.
    pub(super) fn client_ended(&self) -> bool {
        self.has_ended.store(1, Relaxed);
        if let Some(reader) = self.body_reader.lock().take() {
            reader.wake();
        }
        self.phase.load(Relaxed) == BUSY && !self.is_tunnel()
    }

    /// Returns the time at which a client that sends nothing more runs into a timeout.
    pub(super) fn read_deadline(&self, timeouts: &ClientTimeouts) -> Option<Instant> {
        match self.phase.load(Relaxed) {
            UNDATED => self.mark(IDLE),
            HEAD => self.mark(HEAD_TIMED),
            _ => {}
        }
        let since = self.epoch + Duration::from_micros(self.since_us.load(Relaxed));
        match self.phase.load(Relaxed) {
            IDLE => Some(since + timeouts.idle.min(PARK_AFTER)),
            PARKED => Some(since + timeouts.idle),
            HEAD_TIMED => Some(since + timeouts.header),
            _ => None,
        }
    }
}

/// A tunnel stays busy to its end: both sides may be silent, and no bytes are a request.
/// While a request body is unread or a response unwritten, no read timeout applies and bytes from the client are not
/// the next request.
impl ConnectionHandle for Activity {
    fn open_tunnel(&self) -> oneshot::Receiver<TunnelClient> {
        let (tunnel, client) = oneshot::channel();
        self.acquire();
        self.is_tunnel.store(1, Relaxed);
        *self.tunnel.lock() = Some(tunnel);
        client
    }

    fn acquire(&self) {
        self.in_flight.store(self.in_flight.load(Relaxed) + 1, Relaxed);
        self.phase.store(BUSY, Relaxed);
    }

    fn is_last(&self) -> bool {
        self.in_flight.load(Relaxed) <= 1
    }

    fn end_reads(&self) {
        self.ends_reads.store(1, Relaxed);
    }

    fn poll_client_end(&self, cx: &Context<'_>) -> bool {
        if self.has_ended.load(Relaxed) != 0 {
            return true;
        }
        *self.body_reader.lock() = Some(cx.waker().clone());
        false
    }

    fn release(&self) {
        let left = self.in_flight.load(Relaxed).saturating_sub(1);
        self.in_flight.store(left, Relaxed);
        if left == 0 {
            self.phase.store(UNDATED, Relaxed);
            self.task.get().into_iter().for_each(Waker::wake_by_ref);
        } else if left == 1 {
            self.interim.wake(); // once the request has been read, the connection watches for the end of its client
        }
    }
}
