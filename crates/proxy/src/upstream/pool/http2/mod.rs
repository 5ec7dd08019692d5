//! HTTP/2 connections, which many requests share (RFC 9113 §5), on the `h2` crate. hyper's client passes on no interim
//! responses.

mod connect;
mod exchange;
pub(super) mod streams;
mod upload;

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::OwnedSemaphorePermit;

pub(super) use self::connect::{ConnectionSlot, connect};
pub(in crate::upstream) use self::exchange::SendError;
pub(super) use self::streams::OpenStream;
use self::streams::Streams;
use crate::upstream::pool::connection::{Connection, Sender};
use crate::upstream::pool::name_lookup::Peer;
use crate::upstream::pool::waiting::WaitingRequests;

/// HTTP/2 connections of a pool: one, unless more streams are needed than it may open.
#[derive(Debug, Default)]
pub(super) struct Http2Connections {
    all: RefCell<Vec<Http2Connection>>,
    pub(super) waiting: Rc<WaitingRequests>,
}

#[derive(Debug)]
struct Http2Connection {
    streams: Rc<Streams>,
    since_secs: u64,
    peer: Option<Peer>,
}

impl Http2Connections {
    /// Returns true if no connection is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.all.borrow().is_empty()
    }

    /// Returns the place of a new connection.
    pub(super) fn slot(&self, permit: Option<OwnedSemaphorePermit>) -> ConnectionSlot {
        ConnectionSlot { permit, waiting: Rc::clone(&self.waiting) }
    }

    /// Opens a stream on a connection younger than `max_age_secs`; `None` if none may open one more, or if requests wait
    /// for one.
    pub(super) fn stream(&self, now_secs: u64, max_age_secs: u64) -> Option<Box<Connection>> {
        if self.waiting.is_empty() { self.open_stream(now_secs, max_age_secs) } else { None }
    }

    /// Opens a stream for the first request that waits.
    pub(super) fn open_stream(&self, now_secs: u64, max_age_secs: u64) -> Option<Box<Connection>> {
        let mut all = self.all.borrow_mut();
        // Closed by GOAWAY, broken or too old. Open streams end by themselves.
        all.retain(|one| one.streams.is_usable() && now_secs - one.since_secs < max_age_secs);
        let one = all.iter().find(|one| one.streams.has_room())?;
        one.streams.idle_since.set(now_secs);
        Some(Connection::new(Sender::Http2(one.streams.open()), one.since_secs, None))
    }

    /// Opens the first stream of a new connection. If `is_kept`, other requests may share the connection.
    pub(super) fn add(
        &self,
        streams: Rc<Streams>,
        peer: Option<Peer>,
        now_secs: u64,
        is_kept: bool,
    ) -> Box<Connection> {
        streams.idle_since.set(now_secs);
        let connection = Connection::new(Sender::Http2(streams.open()), now_secs, None);
        if is_kept {
            self.all.borrow_mut().push(Http2Connection { streams, since_secs: now_secs, peer });
            self.waiting.wake_first();
        }
        connection
    }

    /// Gives the connections to addresses for which `has_left` is true no further stream.
    pub(super) fn retire(&self, has_left: impl Fn(&Peer) -> bool) {
        self.all.borrow_mut().retain(|one| !one.peer.as_ref().is_some_and(&has_left));
    }

    /// Closes connections that had no stream for more than `max_idle_secs`.
    pub(super) fn close_idle(&self, now_secs: u64, max_idle_secs: u64) {
        self.all.borrow_mut().retain(|one| {
            if !one.streams.is_idle() {
                one.streams.idle_since.set(now_secs);
            }
            one.streams.is_usable() && now_secs - one.streams.idle_since.get() <= max_idle_secs
        });
    }
}
