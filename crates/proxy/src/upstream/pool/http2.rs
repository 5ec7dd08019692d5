//! HTTP/2 connections, which many requests share (RFC 9113 §5).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use hyper::client::conn::http2::SendRequest;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::Body;
use crate::upstream::pool::connection::{Connection, Sender};
use crate::upstream::pool::watch::Watched;

/// HTTP/2 connections of a pool: one, unless more streams are needed than it may open.
#[derive(Debug, Default)]
pub(super) struct Http2Connections(RefCell<Vec<Http2Connection>>);

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
    /// Second of the pool's clock in which the last stream ended.
    idle_since: Cell<u64>,
    /// Share of the pool's connection limit.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Open stream, counted until dropped.
#[derive(Debug)]
pub struct OpenStream(Rc<Streams>);

impl Streams {
    pub(super) fn new(
        max_open: Box<dyn Fn() -> usize>,
        watched: Arc<Watched>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Rc<Self> {
        Rc::new(Self { open: Cell::new(0), max_open, watched, idle_since: Cell::new(0), _permit: permit })
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
        self.0.borrow().is_empty()
    }

    /// Opens a stream on a connection younger than `max_age_secs`; `None` if none may open one more.
    pub(super) fn stream(&self, now_secs: u64, max_age_secs: u64) -> Option<Connection> {
        let mut all = self.0.borrow_mut();
        // Closed by GOAWAY, broken or too old. Open streams end by themselves.
        all.retain(|one| one.is_usable() && now_secs - one.since_secs < max_age_secs);
        let one = all.iter().find(|one| one.streams.open.get() < (one.streams.max_open)())?;
        one.streams.idle_since.set(now_secs);
        Some(Connection::new(Sender::Http2(one.sender.clone(), one.streams.open()), one.since_secs))
    }

    /// Queues a stream on the connection with the fewest streams, although the server's limit is reached.
    pub(super) fn queue(&self) -> Option<Connection> {
        let all = self.0.borrow();
        let one = all.iter().filter(|one| one.is_usable()).min_by_key(|one| one.streams.open.get())?;
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
            self.0.borrow_mut().push(Http2Connection { sender, streams, since_secs: now_secs });
        }
        connection
    }

    /// Closes connections that had no stream for more than `max_idle_secs`.
    pub(super) fn close_idle(&self, now_secs: u64, max_idle_secs: u64) {
        self.0.borrow_mut().retain(|one| {
            if !one.streams.is_idle() {
                one.streams.idle_since.set(now_secs);
            }
            one.is_usable() && now_secs - one.streams.idle_since.get() <= max_idle_secs
        });
    }
}
