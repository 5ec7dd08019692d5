//! Timeout that is set for every request and rarely fires.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep_until};

/// Deadline that is cheap to move.
///
/// Registering and cancelling a runtime timer for each request costs about 1,500 instructions. This type keeps the
/// timer of an earlier request armed. Moving the deadline later only stores it; a timer that fires too early is armed
/// again for the remaining time.
#[derive(Debug, Default)]
pub struct Deadline {
    timer: Option<Pin<Box<Sleep>>>,
    at: Option<Instant>,
    /// Task that the armed timer wakes.
    task: Option<Waker>,
}

impl Deadline {
    /// Sets the deadline to `at`.
    pub fn set(&mut self, at: Instant) {
        self.at = Some(at);
    }

    /// Removes the deadline.
    pub fn clear(&mut self) {
        self.at = None;
    }

    /// Returns true if a deadline is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.at.is_some()
    }

    /// Returns true if the timer is armed and wakes the current task.
    #[must_use]
    pub fn is_armed(&self, cx: &Context<'_>) -> bool {
        let wakes_task = self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        wakes_task && self.timer.as_ref().is_some_and(|timer| !timer.is_elapsed())
    }

    /// Completes when the deadline has passed; never, if none is set.
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        let is_armed = self.is_armed(cx);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if is_armed && timer.deadline() <= at {
            return Poll::Pending;
        }
        self.task = None;
        if timer.deadline() > at {
            timer.as_mut().reset(at);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= at {
                return Poll::Ready(());
            }
            timer.as_mut().reset(at);
        }
        // Without budget the timer was not armed, and the task is polled again.
        if has_budget_remaining() {
            self.task = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_moved_later_fires_at_the_later_time() {
        let start = Instant::now();
        let mut deadline = Deadline::default();
        deadline.set(start + Duration::from_secs(1));
        poll_fn(|cx| {
            assert!(deadline.poll_expired(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        deadline.set(start + Duration::from_secs(5));
        poll_fn(|cx| deadline.poll_expired(cx)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_moved_earlier_fires_at_the_earlier_time() {
        let start = Instant::now();
        let mut deadline = Deadline::default();
        deadline.set(start + Duration::from_secs(60));
        poll_fn(|cx| {
            assert!(deadline.poll_expired(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        deadline.set(start + Duration::from_secs(2));
        poll_fn(|cx| deadline.poll_expired(cx)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_wakes_the_task_that_polled_last() {
        let start = Instant::now();
        let mut deadline = Deadline::default();
        deadline.set(start + Duration::from_secs(1));
        assert!(deadline.poll_expired(&mut Context::from_waker(Waker::noop())).is_pending());
        let waiting = tokio::spawn(async move {
            // The second poll finds the timer armed for this task.
            poll_fn(|cx| match deadline.poll_expired(cx) {
                Poll::Pending => deadline.poll_expired(cx),
                ready => ready,
            })
            .await;
            deadline.set(start + Duration::from_secs(3));
            poll_fn(|cx| deadline.poll_expired(cx)).await;
        });
        waiting.await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_armed_from_its_poll_until_it_passes() {
        let mut deadline = Deadline::default();
        deadline.set(Instant::now() + Duration::from_secs(1));
        poll_fn(|cx| {
            assert!(!deadline.is_armed(cx));
            assert!(deadline.poll_expired(cx).is_pending());
            deadline.clear();
            assert!(deadline.is_armed(cx) && !deadline.is_armed(&Context::from_waker(Waker::noop())));
            Poll::Ready(())
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!poll_fn(|cx| Poll::Ready(deadline.is_armed(cx))).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cleared_deadline_never_fires() {
        let mut deadline = Deadline::default();
        deadline.set(Instant::now() + Duration::from_secs(1));
        deadline.clear();
        let fired = tokio::time::timeout(Duration::from_secs(3600), poll_fn(|cx| deadline.poll_expired(cx))).await;
        assert!(fired.is_err());
    }
}
