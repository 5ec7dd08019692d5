//! A connection and who has it.

use std::rc::Rc;

use hyper::client::conn::{http1, http2};
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::Body;
use crate::http::deadline::Deadline;
use crate::upstream::pick::{Attempt, Outcome, Pick};
use crate::upstream::pool::Pool;
use crate::upstream::pool::head_limit::HeadLimit;
use crate::upstream::pool::http2::Stream;

/// A connection, and the deadline of whatever it is doing.
#[derive(Debug)]
pub struct Connection {
    /// Where requests are sent.
    pub sender: Sender,
    /// The deadline of the answer, then of each of its body's pieces.
    pub deadline: Deadline,
    /// Second of the pool in which it was made.
    pub(super) since_secs: u64,
    /// Its share of what the pool may have in use at once.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// Where requests are sent.
#[derive(Debug)]
pub enum Sender {
    /// One request after the other.
    Http1(http1::SendRequest<Body>, HeadLimit),
    /// A stream of a connection that others use at the same time.
    Http2(http2::SendRequest<Body>, Stream),
}

/// A connection in use, to be given back when its answer has been read to the end; dropped otherwise.
#[derive(Debug)]
pub struct Lease {
    pool: Rc<Pool>,
    connection: Connection,
    attempt: Option<Box<dyn Attempt>>,
}

impl Connection {
    pub(super) fn new(sender: Sender, since_secs: u64) -> Self {
        Self { sender, deadline: Deadline::default(), since_secs, permit: None }
    }

    /// Whether it can take a request now.
    pub(super) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender, _) => sender.is_ready(),
            Sender::Http2(sender, _) => sender.is_ready(),
        }
    }

    /// Whether it speaks HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(..))
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender, _) => sender.is_closed(),
            Sender::Http2(sender, _) => sender.is_closed(),
        }
    }
}

impl Lease {
    /// A connection of the picked pool, in use.
    #[must_use]
    pub fn new(pick: Pick, connection: Connection) -> Self {
        Self { pool: pick.pool, connection, attempt: pick.attempt }
    }

    /// The connection's deadline.
    pub fn deadline(&mut self) -> &mut Deadline {
        &mut self.connection.deadline
    }

    /// The answer came to no good end after its head.
    pub fn report(&self, outcome: Outcome) {
        if let Some(attempt) = &self.attempt {
            attempt.report(outcome);
        }
    }

    /// Its answer was read to the end: the next request may have the connection.
    pub fn give_back(self) {
        self.pool.give_back(self.connection);
    }
}
