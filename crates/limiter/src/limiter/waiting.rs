//! Waits until requests are allowed: one queue for each key, in order of arrival.
//!
//! Only the first call of a queue asks the store. After its decision, the next call knows how long it has to wait at least,
//! and sleeps until then. So a call takes one decision of the store for most rules, and two for sliding windows and buckets
//! that refill in steps, whose verdicts do not state that time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use super::RateLimiter;
use super::queues::LastDecision;
use crate::rule::Rule;
use crate::store::{Decision, Store};
use crate::verdict::{Outcome, Verdict};

/// Reason why a wait failed. The request consumed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The cost exceeds the capacity of a rule, or a quota without a period is used up.
    #[error("a cost of {cost} can never be allowed: it exceeds the capacity of a rule, or what remains of a quota")]
    NeverAllowed {
        /// Cost of the request.
        cost: u64,
    },
    /// The call runs outside of a tokio runtime.
    #[error("waits need a tokio runtime with its timer enabled, as `#[tokio::main]` has")]
    NoRuntime,
    /// The request would not be allowed within the longest wait.
    #[error("the request would wait longer than {at_most:?}")]
    TooLong {
        /// Longest wait.
        at_most: Duration,
    },
}

/// Decision in progress. If it is dropped, it ends in the background, and its tokens are returned.
struct PendingDecision<'l, S: Store + 'static> {
    limiter: &'l RateLimiter<S>,
    id: &'l [u8],
    cost: u64,
    future: Option<Pin<Box<dyn Future<Output = Verdict> + Send>>>,
}

/// Turn of a request under a leaky bucket, returned if it is dropped before.
struct Turn<'l, S: Store> {
    limiter: &'l RateLimiter<S>,
    id: &'l [u8],
    cost: u64,
    verdict: &'l Verdict,
    has_begun: bool,
}

// === impl RateLimiter ===

impl<S: Store + 'static> RateLimiter<S> {
    /// Waits until the request is allowed, and returns the verdict.
    ///
    /// - Requests of one key are allowed in the order in which they began to wait, among all clones of the limiter.
    ///   [`check`](Self::check) does not queue.
    /// - A dropped wait consumes nothing, and the next request moves up. If Redis is deciding it at that moment, its tokens
    ///   are returned as soon as Redis replies.
    /// - Only the first request of a key asks the store: once, or twice under sliding windows and buckets that refill in
    ///   steps.
    /// - While the store is unavailable ([`Outcome::StoreUnavailable`]), requests wait.
    ///
    /// The wait uses tokio's timer, which counts milliseconds. Other calls of a limiter on a memory store need no runtime. In tests with paused time, use a store with a
    /// [`TokioClock`](crate::store::memory::TokioClock).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_limiter::{MemoryStore, RateLimiter, TokenBucket};
    ///
    /// let limiter = RateLimiter::new("jobs", TokenBucket::per_second(100, 1)?, MemoryStore::default());
    /// for job in 1..=3 {
    ///     limiter.until_allowed("reports", 1).await?;
    ///     println!("job {job}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WaitError::NeverAllowed`] and [`WaitError::NoRuntime`], at once.
    ///
    /// # Panics
    /// If the runtime has no timer ([`enable_time`](tokio::runtime::Builder::enable_time)) and the request has to wait.
    pub async fn until_allowed(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Verdict, WaitError> {
        self.wait(key.as_ref(), cost, None).await
    }

    /// Waits as [`until_allowed`](Self::until_allowed) does, at most for `at_most`. With a duration of zero, the request is
    /// allowed at once or not at all.
    ///
    /// # Errors
    /// [`WaitError::TooLong`] as soon as it is known that the request would have to wait longer: at once if it is the first
    /// of its key, otherwise when the requests before it have been allowed, or after `at_most`. Other errors are those of
    /// `until_allowed`.
    pub async fn try_wait_for(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        at_most: Duration,
    ) -> Result<Verdict, WaitError> {
        // A time that the timer cannot represent is no limit.
        let deadline = Instant::now().checked_add(at_most).map(|at| Deadline { at, at_most });
        self.wait(key.as_ref(), cost, deadline).await
    }

    async fn wait(&self, id: &[u8], cost: u64, deadline: Option<Deadline>) -> Result<Verdict, WaitError> {
        // Not only once a request has to wait: under little load, none does.
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(WaitError::NoRuntime);
        }
        // A prepaid quota may hold granted tokens above its capacity.
        let is_bounded = |rule: &Rule| !rule.algorithm().spec().prepaid;
        if self.rules.iter().any(|scoped| is_bounded(&scoped.rule) && cost > scoped.rule.capacity()) {
            return Err(WaitError::NeverAllowed { cost });
        }
        let verdict = self.allowed_in_turn(id, cost, deadline).await?;
        if !verdict.delay.is_zero() {
            let mut turn = Turn { limiter: self, id, cost, verdict: &verdict, has_begun: false };
            Deadline::check(deadline, Instant::now() + verdict.delay)?;
            tokio::time::sleep(verdict.delay).await;
            turn.has_begun = true;
        }
        Ok(verdict)
    }

    /// Waits for the first place in the queue, and then until the store allows the request.
    async fn allowed_in_turn(&self, id: &[u8], cost: u64, deadline: Option<Deadline>) -> Result<Verdict, WaitError> {
        let place = self.queues.join(id);
        let mut last = match deadline {
            Some(Deadline { at, at_most }) => {
                timeout_at(at, place.queue.first.lock()).await.map_err(|_| WaitError::TooLong { at_most })?
            }
            None => place.queue.first.lock().await,
        };
        loop {
            if let Some(next) = last.as_ref().and_then(|last| last.next_check(self, cost)) {
                Deadline::check(deadline, next)?;
                let _ = timeout_at(next, place.queue.returned.notified()).await;
            }
            let verdict = self.decide_or_return(id, cost).await;
            *last = Some(LastDecision { at: Instant::now(), cost, verdict: verdict.clone() });
            match verdict.outcome {
                Outcome::Allowed => return Ok(verdict),
                Outcome::NeverAdmitted => return Err(WaitError::NeverAllowed { cost }),
                Outcome::Denied { .. } | Outcome::StoreUnavailable { .. } => {}
            }
        }
    }

    async fn decide_or_return(&self, id: &[u8], cost: u64) -> Verdict {
        match self.decide(id, cost) {
            Decision::Ready(verdict) => verdict,
            Decision::Pending(future) => PendingDecision { limiter: self, id, cost, future: Some(future) }.await,
        }
    }
}

/// Time at which a wait ends.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    at_most: Duration,
}

impl Deadline {
    /// Fails if `at` is after the deadline.
    fn check(deadline: Option<Self>, at: Instant) -> Result<(), WaitError> {
        match deadline {
            Some(deadline) if at > deadline.at => Err(WaitError::TooLong { at_most: deadline.at_most }),
            _ => Ok(()),
        }
    }
}

// === impl PendingDecision ===

impl<S: Store + 'static> Future for PendingDecision<'_, S> {
    type Output = Verdict;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Verdict> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let verdict = ready!(future.as_mut().poll(cx));
        self.future = None;
        Poll::Ready(verdict)
    }
}

impl<S: Store + 'static> Drop for PendingDecision<'_, S> {
    fn drop(&mut self) {
        let (Some(future), Ok(runtime)) = (self.future.take(), tokio::runtime::Handle::try_current()) else { return };
        let (limiter, id, cost) = (self.limiter.clone(), self.id.to_owned(), self.cost);
        runtime.spawn(async move { limiter.refund(id, cost, &future.await) });
    }
}

// === impl Turn ===

impl<S: Store> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        if !self.has_begun {
            self.limiter.refund(self.id, self.cost, self.verdict);
        }
    }
}

#[cfg(test)]
mod tests;
