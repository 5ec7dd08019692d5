//! A connection and who has it.

use std::rc::Rc;

use hyper::client::conn::http1::SendRequest;

use super::Pool;
use crate::body::Body;
use crate::deadline::Deadline;
use crate::upstream::endpoints::{Outcome, Pick, Watcher};

/// A connection, and the deadline of whatever it is doing.
#[derive(Debug)]
pub struct Connection {
    /// Where requests are sent.
    pub sender: SendRequest<Body>,
    /// The deadline of the answer, then of each of its body's pieces.
    pub deadline: Deadline,
    /// Whether it has carried a request before: then it may turn out to have been closed meanwhile.
    pub reused: bool,
}

/// A connection in use, to be given back when its answer has been read to the end; dropped otherwise.
#[derive(Debug)]
pub struct Lease {
    pool: Rc<Pool>,
    connection: Connection,
    watcher: Option<Box<dyn Watcher>>,
}

impl Lease {
    /// A connection of the picked pool, in use.
    #[must_use]
    pub fn new(pick: Pick, connection: Connection) -> Self {
        Self { pool: pick.pool, connection, watcher: pick.watcher }
    }

    /// The connection's deadline.
    pub fn deadline(&mut self) -> &mut Deadline {
        &mut self.connection.deadline
    }

    /// The answer came to no good end after its head.
    pub fn broke_off(&self, outcome: Outcome) {
        if let Some(watcher) = &self.watcher {
            watcher.observe(outcome);
        }
    }

    /// Its answer was read to the end: the next request may have the connection.
    pub fn give_back(self) {
        self.pool.give_back(self.connection);
    }
}
