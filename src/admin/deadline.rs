//! Deadline of a connection of the admin port.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Timeout for a request as a whole, from its head to the last byte of the response that the client reads.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Time at which a connection is closed, even during a request.
#[derive(Clone, Debug)]
pub(super) struct Deadline(Rc<watch::Sender<Instant>>);

impl Deadline {
    /// Creates a deadline for the first request of a connection.
    pub(super) fn new() -> Self {
        Self(Rc::new(watch::Sender::new(Instant::now() + REQUEST_TIMEOUT)))
    }

    /// Moves the deadline to `timeout` from now.
    pub(super) fn set(&self, timeout: Duration) {
        self.0.send_replace(Instant::now() + timeout);
    }

    /// Returns after the deadline.
    pub(super) async fn passed(&self) {
        let mut changes = self.0.subscribe();
        loop {
            let deadline = *changes.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                _ = changes.changed() => {}
            }
        }
    }
}
