//! Guards that keep a client connection from counting as idle.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::Context;

/// Count of the unfinished parts of a connection's requests: request bodies still to be read, responses still to be
/// written.
pub trait BusyCount: Debug + Send + Sync {
    /// Adds one part.
    fn acquire(&self);

    /// Removes one part; the connection is idle at zero.
    fn release(&self);

    /// Returns true if one part is left.
    fn is_last(&self) -> bool;

    /// Notes that the rest of a request body is not read: the connection ends after the response.
    fn end_reads(&self);

    /// Returns true if the client has closed its sending side. Otherwise the current task, which waits for a request
    /// body, is woken when the client does so.
    fn poll_client_end(&self, cx: &Context<'_>) -> bool;
}

/// One unfinished part of a request. Dropping it finishes the part.
#[derive(Debug)]
pub struct BusyGuard(Arc<dyn BusyCount>);

impl BusyGuard {
    /// Counts a part of a request on `connection` until the guard is dropped.
    #[must_use]
    pub fn new(connection: Arc<dyn BusyCount>) -> Self {
        connection.acquire();
        Self(connection)
    }

    /// Returns the connection.
    #[must_use]
    pub fn connection(&self) -> &dyn BusyCount {
        &*self.0
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.release();
    }
}
