//! Releases that are on their way.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Counts the releases that Redis has not answered yet, so that a process which ends can wait for them: a lease that is
/// not given back is missing until it ends.
#[derive(Debug)]
pub struct Releases(watch::Sender<usize>);

/// One of them, until it is dropped.
pub(super) struct UnderWay(Arc<Releases>);

impl Default for Releases {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Releases {
    /// Waits until none is under way, `at_most` so long.
    pub async fn settled(&self, at_most: Duration) {
        let mut count = self.0.subscribe();
        let _ = tokio::time::timeout(at_most, count.wait_for(|count| *count == 0)).await;
    }

    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.0.send_modify(|count| *count += 1);
        UnderWay(Arc::clone(self))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
