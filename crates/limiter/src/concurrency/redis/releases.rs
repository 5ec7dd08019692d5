//! Releases in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Number of releases that Redis has not confirmed yet. A process that shuts down can wait for them: a slot that is not
/// released is missing until its slot expires.
#[derive(Debug)]
pub struct Releases(watch::Sender<usize>);

/// A release in flight; it ends on drop.
pub(super) struct InFlight(Arc<Releases>);

impl Default for Releases {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Releases {
    /// Waits up to `at_most` until no release is in flight.
    pub async fn settled(&self, at_most: Duration) {
        let mut count = self.0.subscribe();
        let _ = tokio::time::timeout(at_most, count.wait_for(|count| *count == 0)).await;
    }

    pub(super) fn start(self: &Arc<Self>) -> InFlight {
        self.0.send_modify(|count| *count += 1);
        InFlight(Arc::clone(self))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
