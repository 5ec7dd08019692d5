//! Connections that a pool keeps between requests: their release, their age and their addresses.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::upstream::pool::Pool;
use crate::upstream::pool::connection::Connection;
use tollgate_transport::executor::spawn_boxed;

impl Pool {
    /// Advances the clock by one second and closes connections that were idle for too long, or whose address is gone. If
    /// connections are kept, looks up the name `renew_secs` after the latest lookup.
    pub fn tick(&self, renew_secs: u64) {
        let now = self.now_secs.get() + 1;
        self.now_secs.set(now);
        let settings = self.settings.borrow();
        let oldest = (now + 1).saturating_sub(settings.max_life_secs);
        let has_lost = self.names.take_lost();
        if has_lost {
            self.http2.retire(|peer| self.names.has_left(peer));
        }
        self.checked_before_secs.update(|before| if has_lost { now + 1 } else { before.max(oldest) });
        self.http2.close_idle(now, settings.max_idle_secs);
        self.idle.borrow_mut().retain_mut(|idle| {
            now - idle.idle_since_secs <= settings.max_idle_secs
                && !self.is_outdated(idle, settings.max_life_secs)
                && idle.is_usable()
        });
        self.names.renew(renew_secs);
    }

    /// Returns true if an HTTP/1.1 connection takes no further request: it is too old, or its address is gone.
    fn is_outdated(&self, connection: &Connection, max_life_secs: u64) -> bool {
        self.now_secs.get() - connection.since_secs >= max_life_secs
            || connection.peer.as_ref().is_some_and(|peer| self.names.has_left(peer))
    }

    /// Applies a changed connection limit.
    pub(in crate::upstream) fn resize(&self) {
        let limit = self.settings.borrow().max_connections.map(usize::from);
        let mut slots = self.slots.borrow_mut();
        if slots.as_ref().map(|(current, _)| *current) != limit {
            // Connections in use hold permits of the old limit until they are released.
            *slots = limit.map(|limit| (limit, Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))));
        }
    }

    /// Takes back a connection after its response has been read to the end. If the rest of the request is still being sent, the
    /// connection is kept after that, or closed: after `timeout`, or when another request waits for its place.
    pub(in crate::upstream) fn release(self: &Rc<Self>, mut connection: Box<Connection>, timeout: Option<Duration>) {
        let Some(http1) = connection.http1() else { return };
        if !http1.finish() {
            return self.keep(connection);
        }
        let pool = Rc::clone(self);
        spawn_boxed(async move {
            let mut waiting = pool.waiting.subscribe();
            tokio::select! {
                connection = connection.finish_upload(timeout) => connection.map_or((), |connection| pool.keep(connection)),
                _ = waiting.wait_for(|count| *count > 0) => {}
            }
        });
    }

    fn keep(&self, mut connection: Box<Connection>) {
        let settings = self.settings.borrow();
        let now_secs = self.now_secs.get();
        let mut idle = self.idle.borrow_mut();
        let is_suspect = connection.since_secs < self.checked_before_secs.get();
        if (is_suspect && self.is_outdated(&connection, settings.max_life_secs))
            || connection.http1().is_none_or(|http1| !http1.is_reusable())
            || idle.len() >= settings.max_idle
        {
            return;
        }
        connection.deadline.clear();
        connection.idle_since_secs = now_secs;
        let permit = connection.permit.take();
        idle.push_back(connection);
        // The permit goes last: the request that waits for it finds the connection.
        drop((idle, permit));
    }
}

#[cfg(test)]
mod tests;
