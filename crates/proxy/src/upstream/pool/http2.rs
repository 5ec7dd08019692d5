//! HTTP/2 connections, which many requests share (RFC 9113 §5).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use hyper::client::conn::http2::SendRequest;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::Body;
use crate::upstream::pool::connection::{Connection, Sender};
use crate::upstream::pool::waiting::WaitingRequests;
use crate::upstream::pool::watch::Watched;

/// HTTP/2 connections of a pool: one, unless more streams are needed than it may open.
#[derive(Debug, Default)]
pub(super) struct Http2Connections {
    all: RefCell<Vec<Http2Connection>>,
    waiting: Rc<WaitingRequests>,
}

#[derive(Debug)]
struct Http2Connection {
    sender: SendRequest<Body>,
    streams: Rc<Streams>,
    since_secs: u64,
}

/// Streams of one connection.
pub(super) struct Streams {
    open: Cell<usize>,
    /// Current `SETTINGS_MAX_CONCURRENT_STREAMS` of the server.
    max_open: Box<dyn Fn() -> usize>,
    watched: Arc<Watched>,
    /// Requests that wait for a stream of any connection of the pool.
    waiting: Rc<WaitingRequests>,
    /// Second of the pool's clock in which the last stream ended.
    idle_since: Cell<u64>,
    /// Share of the pool's connection limit.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Place of a new connection in its pool.
pub(super) struct Slot {
    /// Share of the pool's connection limit.
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// Requests that wait for a stream.
    pub(super) waiting: Rc<WaitingRequests>,
}

/// Open stream, counted until dropped.
#[derive(Debug)]
pub struct OpenStream(Rc<Streams>);

impl Streams {
    pub(super) fn new(max_open: Box<dyn Fn() -> usize>, watched: Arc<Watched>, slot: Slot) -> Rc<Self> {
        let Slot { permit, waiting } = slot;
        Rc::new(Self { open: Cell::new(0), max_open, watched, waiting, idle_since: Cell::new(0), _permit: permit })
    }

    /// Returns the first read error of the connection.
    pub(super) fn read_error(&self) -> Option<&str> {
        self.watched.read_error()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.get() == 0
    }

    fn open(self: &Rc<Self>) -> OpenStream {
        self.open.set(self.open.get() + 1);
        self.watched.count_request();
        OpenStream(Rc::clone(self))
    }
}

impl OpenStream {
    /// Gives the connection no further request: the upstream is closing it.
    pub fn retire(&self) {
        self.0.watched.retire();
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get().saturating_sub(1));
        self.0.waiting.wake_first();
    }
}

impl Http2Connection {
    /// True if it takes further requests: it is open, and the upstream sent no GOAWAY.
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && !self.streams.watched.is_going_away()
    }
}

impl Http2Connections {
    /// True if no connection is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.all.borrow().is_empty()
    }

    /// Returns the place of a new connection.
    pub(super) fn slot(&self, permit: Option<OwnedSemaphorePermit>) -> Slot {
        Slot { permit, waiting: Rc::clone(&self.waiting) }
    }

    /// Opens a stream on a connection younger than `max_age_secs`; `None` if none may open one more, or if requests wait
    /// for one.
    pub(super) fn stream(&self, now_secs: u64, max_age_secs: u64) -> Option<Connection> {
        if self.waiting.is_empty() { self.open_stream(now_secs, max_age_secs) } else { None }
    }

    /// Waits for a stream, behind the requests that wait already. `open` calls [`Self::open_stream`].
    pub(super) async fn wait(&self, open: impl FnMut() -> Option<Connection>) -> Connection {
        self.waiting.wait(open).await
    }

    /// Opens a stream for the first request that waits.
    pub(super) fn open_stream(&self, now_secs: u64, max_age_secs: u64) -> Option<Connection> {
        let mut all = self.all.borrow_mut();
        // Closed by GOAWAY, broken or too old. Open streams end by themselves.
        all.retain(|one| one.is_usable() && now_secs - one.since_secs < max_age_secs);
        let one = all.iter().find(|one| one.streams.open.get() < (one.streams.max_open)())?;
        one.streams.idle_since.set(now_secs);
        Some(Connection::new(Sender::Http2(one.sender.clone(), one.streams.open()), one.since_secs))
    }

    /// Opens the first stream of a new connection. If `is_kept`, other requests may share the connection.
    pub(super) fn add(
        &self,
        sender: SendRequest<Body>,
        streams: Rc<Streams>,
        now_secs: u64,
        is_kept: bool,
    ) -> Connection {
        streams.idle_since.set(now_secs);
        let connection = Connection::new(Sender::Http2(sender.clone(), streams.open()), now_secs);
        if is_kept {
            self.all.borrow_mut().push(Http2Connection { sender, streams, since_secs: now_secs });
            self.waiting.wake_first();
        }
        connection
    }

    /// Closes connections that had no stream for more than `max_idle_secs`. Lets the first waiting request try again:
    /// a server may have raised its limit.
    pub(super) fn tick(&self, now_secs: u64, max_idle_secs: u64) {
        self.all.borrow_mut().retain(|one| {
            if !one.streams.is_idle() {
                one.streams.idle_since.set(now_secs);
            }
            one.is_usable() && now_secs - one.streams.idle_since.get() <= max_idle_secs
        });
        self.waiting.wake_first();
    }
}
