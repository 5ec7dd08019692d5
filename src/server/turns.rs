//! HTTP/2 clients that ask for answers and do not read them.
//!
//! A client's window is its own business: at 0 it holds our answer, and with it the upstream's connection, while the
//! socket is in the best of order. So each answer notes since when the client has had its latest piece before it.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Since when it has been the client's turn in one answer; `None` while it is the upstream's.
pub type Turn = Rc<Cell<Option<Instant>>>;

/// The turns of a connection's answers.
#[derive(Debug, Default)]
pub struct Turns(RefCell<Vec<Weak<Cell<Option<Instant>>>>>);

impl Turns {
    /// A new answer's turn, watched until it is dropped.
    #[must_use]
    pub fn begin(&self) -> Turn {
        let turn = Turn::default();
        self.0.borrow_mut().push(Rc::downgrade(&turn));
        turn
    }

    /// Waits until the client has left a piece of an answer lying for `patience`.
    pub async fn stalled(&self, patience: Duration) {
        loop {
            sleep(patience / 4).await;
            let mut turns = self.0.borrow_mut();
            turns.retain(|turn| turn.strong_count() > 0);
            let since = turns.iter().filter_map(|turn| turn.upgrade()?.get()).min();
            if since.is_some_and(|since| since.elapsed() >= patience) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_piece_that_lies_before_the_client_counts() {
        let turns = Turns::default();
        let (waiting, mut gone) = (turns.begin(), turns.begin());
        gone.set(Some(Instant::now()));
        let patience = Duration::from_secs(1);
        gone = turns.begin();
        assert!(tokio::time::timeout(Duration::from_secs(9), turns.stalled(patience)).await.is_err());
        assert_eq!(turns.0.borrow().len(), 2);
        waiting.set(Some(Instant::now()));
        let start = Instant::now();
        turns.stalled(patience).await;
        assert!((1_000..=1_250).contains(&start.elapsed().as_millis()));
        drop(gone);
    }
}
