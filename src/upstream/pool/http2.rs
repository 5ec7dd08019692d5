//! HTTP/2 connections, which many requests use at once (RFC 9113 §5).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hyper::client::conn::http2::SendRequest;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::Body;
use crate::upstream::pool::connection::{Connection, Sender};

/// The connections of a pool that speak HTTP/2: one, unless more streams are wanted than it may have open.
#[derive(Debug, Default)]
pub(super) struct Http2Connections(RefCell<Vec<Http2Connection>>);

#[derive(Debug)]
struct Http2Connection {
    sender: SendRequest<Body>,
    streams: Rc<Streams>,
    since_secs: u64,
}

/// What goes on over one connection.
pub(super) struct Streams {
    open: Cell<usize>,
    /// How many the server lets us open now: its `SETTINGS_MAX_CONCURRENT_STREAMS`.
    most: Box<dyn Fn() -> usize>,
    /// Second of the pool in which the latest ended.
    idle_since: Cell<u64>,
    /// The connection's share of what the pool may have at once.
    _permit: Option<OwnedSemaphorePermit>,
}

/// One open stream; it has ended when this is dropped.
#[derive(Debug)]
pub struct Stream(Rc<Streams>);

impl Streams {
    pub(super) fn new(most: Box<dyn Fn() -> usize>, permit: Option<OwnedSemaphorePermit>) -> Rc<Self> {
        Rc::new(Self { open: Cell::new(0), most, idle_since: Cell::new(0), _permit: permit })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.get() == 0
    }

    fn open(self: &Rc<Self>) -> Stream {
        self.open.set(self.open.get() + 1);
        Stream(Rc::clone(self))
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get().saturating_sub(1));
    }
}

impl Http2Connections {
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// A stream of a connection that is open, young enough and has room for one more.
    pub(super) fn stream(&self, now_secs: u64, max_age_secs: u64) -> Option<Connection> {
        let mut all = self.0.borrow_mut();
        // Told to go (GOAWAY), broken or old: streams that are open end in their own time.
        all.retain(|one| !one.sender.is_closed() && now_secs - one.since_secs < max_age_secs);
        let one = all.iter().find(|one| one.streams.open.get() < (one.streams.most)())?;
        one.streams.idle_since.set(now_secs);
        Some(Connection::new(Sender::Http2(one.sender.clone(), one.streams.open()), one.since_secs))
    }

    /// A stream of the connection with the fewest, where its server must let it wait.
    pub(super) fn queue(&self) -> Option<Connection> {
        let all = self.0.borrow();
        let one = all.iter().filter(|one| !one.sender.is_closed()).min_by_key(|one| one.streams.open.get())?;
        Some(Connection::new(Sender::Http2(one.sender.clone(), one.streams.open()), one.since_secs))
    }

    /// Opens a new connection's first stream; others may have streams of it if it `is_kept`.
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

    /// Closes what has been without a stream for longer than `max_idle_secs`.
    pub(super) fn tick(&self, now_secs: u64, max_idle_secs: u64) {
        self.0.borrow_mut().retain(|one| {
            if !one.streams.is_idle() {
                one.streams.idle_since.set(now_secs);
            }
            !one.sender.is_closed() && now_secs - one.streams.idle_since.get() <= max_idle_secs
        });
    }
}
