//! Detection of HTTP/2 clients that request responses and do not read them.
//!
//! A client controls its flow-control window. At 0 the window holds back a response, and with it the upstream's
//! connection, while the socket itself shows no error. So each response records how long its latest frame has been
//! waiting for the client.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Time since which a frame of one response has been waiting for the client; `None` while the response waits for the
/// upstream.
type WaitingSince = Cell<Option<Instant>>;

/// Stall state of one response, watched until it is dropped.
#[derive(Debug)]
pub(super) struct ResponseStall(Rc<WaitingSince>);

/// Stall states of the responses on one connection.
#[derive(Debug, Default)]
pub struct WriteStalls(RefCell<Vec<Weak<WaitingSince>>>);

impl ResponseStall {
    /// Records that the connection asks for the next frame.
    pub(super) fn frame_requested(&self) {
        self.0.set(None);
    }

    /// Records that a frame is queued for the client.
    pub(super) fn frame_queued(&self) {
        self.0.set(Some(Instant::now()));
    }
}

impl WriteStalls {
    /// Watches a new response.
    #[must_use]
    pub(super) fn watch(&self) -> ResponseStall {
        let since = Rc::default();
        self.0.borrow_mut().push(Rc::downgrade(&since));
        ResponseStall(since)
    }

    /// Completes when the client has not read a frame of some response for `timeout`, with a delay of at most a
    /// quarter of it.
    pub(super) async fn stalled(&self, timeout: Duration) {
        loop {
            sleep(timeout / 4).await;
            let mut stalls = self.0.borrow_mut();
            stalls.retain(|since| since.strong_count() > 0);
            let oldest = stalls.iter().filter_map(|since| since.upgrade()?.get()).min();
            if oldest.is_some_and(|since| since.elapsed() >= timeout) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_frame_that_waits_for_the_client_counts() {
        let stalls = WriteStalls::default();
        let (waiting, mut other) = (stalls.watch(), stalls.watch());
        other.frame_queued();
        let timeout = Duration::from_secs(1);
        other = stalls.watch();
        assert!(tokio::time::timeout(Duration::from_secs(9), stalls.stalled(timeout)).await.is_err());
        assert_eq!(stalls.0.borrow().len(), 2);
        waiting.frame_queued();
        let start = Instant::now();
        stalls.stalled(timeout).await;
        assert!((1_000..=1_250).contains(&start.elapsed().as_millis()));
        drop(other);
    }
}
