//! Queues of waiting requests, and the times at which they ask the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::RateLimiter;
use crate::rule::{Refill, Rule};
use crate::sync::Mutex;
use crate::verdict::{Outcome, Verdict};

/// Shortest pause after a denial: the resolution of tokio's timer.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Queues of the keys that requests wait for. A key without waiting requests has no entry.
#[derive(Debug, Default)]
pub(super) struct Queues(Mutex<HashMap<Box<[u8]>, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    queue: Arc<Queue>,
    calls: usize,
}

/// Queue of a key.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Latest decision, locked by the first call. The lock is fair, and a dropped call leaves its queue.
    pub(super) first: tokio::sync::Mutex<Option<LastDecision>>,
    /// Wakes the first call when tokens are returned.
    pub(super) returned: Notify,
}

/// Decision about the first request of a queue.
#[derive(Debug)]
pub(super) struct LastDecision {
    pub(super) at: Instant,
    pub(super) cost: u64,
    pub(super) verdict: Verdict,
}

/// Place of a call in the queue of a key.
pub(super) struct Place<'q> {
    queues: &'q Queues,
    id: &'q [u8],
    pub(super) queue: Arc<Queue>,
}

// === impl Queues ===

impl Queues {
    /// Adds a call to the queue of a key.
    pub(super) fn join<'q>(&'q self, id: &'q [u8]) -> Place<'q> {
        let mut by_key = self.0.lock();
        let entry = by_key.entry(id.into()).or_default();
        entry.calls += 1;
        Place { queues: self, id, queue: Arc::clone(&entry.queue) }
    }

    /// Wakes the first request of a key, since tokens were returned.
    pub(super) fn wake_first(&self, id: &[u8]) {
        if let Some(entry) = self.0.lock().get(id) {
            entry.queue.returned.notify_one();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut by_key = self.queues.0.lock();
        if let Some(entry) = by_key.get_mut(self.id) {
            entry.calls -= 1;
            if entry.calls == 0 {
                by_key.remove(self.id);
            }
        }
    }
}

// === impl LastDecision ===

impl LastDecision {
    /// Returns the time before which no request of `cost` can be allowed, unless tokens are returned.
    pub(super) fn next_check<S>(&self, limiter: &RateLimiter<S>, cost: u64) -> Option<Instant> {
        let verdict = &self.verdict;
        let wait = match verdict.outcome {
            Outcome::StoreUnavailable { retry_after } => retry_after.max(MIN_PAUSE),
            Outcome::Denied { retry_after } if cost >= self.cost => retry_after.max(MIN_PAUSE),
            _ => {
                let waits = limiter.rules.iter().enumerate().map(|(position, scoped)| {
                    let rule = verdict.replaced_rule(position).map_or(&scoped.rule, |rule| rule);
                    match verdict.per_rule.get(position) {
                        Some(one) => least_wait(rule, one.remaining, one.reset_after, cost),
                        None => least_wait(rule, verdict.remaining.unwrap_or(u64::MAX), verdict.reset_after, cost),
                    }
                });
                waits.max().unwrap_or_default()
            }
        };
        if wait.is_zero() { None } else { self.at.checked_add(wait) }
    }
}

/// Returns a lower bound of the time until `cost` tokens are available, after a decision that left `remaining` tokens and the
/// full capacity after `reset_after`. It is exact for smooth buckets and fixed windows, and zero if the verdict does not tell.
pub(super) fn least_wait(rule: &Rule, remaining: u64, reset_after: Duration, cost: u64) -> Duration {
    match rule {
        _ if cost <= remaining => Duration::ZERO,
        Rule::TokenBucket(bucket) | Rule::Gcra(bucket) if bucket.refill() == Refill::Smooth => {
            let rest = bucket.burst_capacity().saturating_sub(cost);
            reset_after.saturating_sub(Duration::from_micros(bucket.flow().us_for(rest)))
        }
        Rule::FixedWindow(_) | Rule::Quota(_) => reset_after,
        _ => Duration::ZERO,
    }
}
