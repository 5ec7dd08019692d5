//! Connection of a pool that a request holds.

use std::rc::Rc;

use crate::http::deadline::Deadline;
use crate::http::read_ahead::ReadAhead;
use crate::upstream::origin::Origin;
use crate::upstream::outcome::Outcome;
use crate::upstream::pick::{Attempt, Pick};
use crate::upstream::pool::{Connection, Pool};

/// Connection in use by a request. It is closed on drop, unless it was [released](Self::release).
#[derive(Debug)]
pub struct ConnectionLease {
    pool: Rc<Pool>,
    connection: Box<Connection>,
    attempt: Option<Box<dyn Attempt>>,
}

impl ConnectionLease {
    /// Leases a connection of the picked pool.
    #[must_use]
    pub fn new(pick: Pick, connection: Box<Connection>) -> Self {
        Self { pool: pick.pool, connection, attempt: pick.attempt }
    }

    /// Returns the connection's deadline.
    pub fn deadline(&mut self) -> &mut Deadline {
        &mut self.connection.deadline
    }

    /// Returns the origin of its pool.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        self.pool.origin()
    }

    /// Applies the limit of bytes until the next part of the body.
    pub fn expect_body(&self) {
        self.connection.expect_body();
    }

    /// Returns when and how much is read; `None` for HTTP/2.
    #[must_use]
    pub fn read_ahead(&self) -> Option<&ReadAhead> {
        self.connection.read_ahead()
    }

    /// Returns true for a stream of an HTTP/2 connection.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        self.connection.is_http2()
    }

    /// Reports that the response failed after its head.
    pub fn report(&self, outcome: Outcome) {
        if let Some(attempt) = &self.attempt {
            attempt.report(outcome, None);
        }
    }

    /// Returns the connection to its pool, after the response has been read to its end.
    pub fn release(self) {
        self.pool.release(self.connection);
    }
}
