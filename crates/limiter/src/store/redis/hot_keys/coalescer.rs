//! Coalescing: equal requests that arrive while a call is in flight share the next call.
//!
//! The first request is the leader and calls Redis itself. Requests that arrive before its reply are followers: a task
//! calls Redis for all followers that wait, again and again until none does. So no request depends on another one, which
//! may be dropped, but on that task; if the task panics, its followers are notified at once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::store::redis::client::Request;
use crate::store::redis::error::StoreError;
use crate::verdict::Verdict;

/// Most followers of one call; later requests call Redis themselves.
const MAX_FOLLOWERS: usize = 4_096;

/// Requests in flight by fingerprint. `None`: only the leader; otherwise the followers that a task serves.
#[derive(Default)]
pub(crate) struct Coalescer(Mutex<HashMap<u128, Option<VecDeque<Follower>>>>);

/// A request that waits for a shared call.
pub(super) struct Follower {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Result<Verdict, StoreError>>,
}

/// Role of a request.
pub(crate) enum Join {
    /// Calls Redis itself. The guard lasts until its reply; without one, no follower can join.
    Leader(Request, Option<LeaderGuard>),
    /// Waits for a shared call, until the deadline.
    Follower(oneshot::Receiver<Result<Verdict, StoreError>>, Instant),
}

/// Registration of a leader, removed on drop.
pub(crate) struct LeaderGuard {
    coalescer: Arc<Coalescer>,
    fingerprint: u128,
}

impl Coalescer {
    /// Joins the requests with that fingerprint. `start` returns the task that calls Redis for followers.
    /// `always_follow` makes the first request a follower too.
    pub(super) fn join<T: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        fingerprint: u128,
        request: Request,
        always_follow: bool,
        start: impl FnOnce() -> T,
    ) -> Join {
        let mut in_flight = self.0.lock();
        let followers = match in_flight.entry(fingerprint) {
            Entry::Vacant(vacant) => {
                let followers = vacant.insert(None);
                if !always_follow {
                    return Join::Leader(request, Some(LeaderGuard { coalescer: Arc::clone(self), fingerprint }));
                }
                followers
            }
            Entry::Occupied(followers) => followers.into_mut(),
        };
        if followers.is_none() {
            let Ok(runtime) = Handle::try_current() else { return Join::Leader(request, None) };
            runtime.spawn(start());
        }
        let followers = followers.get_or_insert_default();
        if followers.len() >= MAX_FOLLOWERS {
            return Join::Leader(request, None);
        }
        let (reply, replied) = oneshot::channel();
        let deadline = request.deadline();
        followers.push_back(Follower { request, reply });
        Join::Follower(replied, deadline)
    }

    /// Takes up to `most` followers, oldest first. `None`: none waits, and the task ends.
    pub(super) fn next(&self, fingerprint: u128, most: usize) -> Option<Vec<Follower>> {
        let mut in_flight = self.0.lock();
        let batch: Vec<Follower> = {
            let followers = in_flight.get_mut(&fingerprint)?.as_mut()?;
            let waits = |follower: &Follower| {
                let is_dropped = follower.reply.is_closed();
                if is_dropped && follower.is_late() {
                    follower.request.record_late();
                }
                !is_dropped
            };
            std::iter::from_fn(|| followers.pop_front()).filter(waits).take(most).collect()
        };
        if batch.is_empty() {
            in_flight.remove(&fingerprint);
            return None;
        }
        Some(batch)
    }

    /// Puts followers that were not served back in front.
    pub(super) fn put_back(&self, fingerprint: u128, followers: Vec<Follower>) {
        if let Some(Some(queue)) = self.0.lock().get_mut(&fingerprint) {
            followers.into_iter().rev().for_each(|follower| queue.push_front(follower));
        }
    }

    /// Drops all followers after their task panicked.
    pub(super) fn abandon(&self, fingerprint: u128) {
        let followers = self.0.lock().remove(&fingerprint);
        drop(followers);
    }
}

impl Follower {
    /// Returns true if the deadline has passed.
    pub(super) fn is_late(&self) -> bool {
        self.request.deadline() <= Instant::now()
    }
}

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        let mut in_flight = self.coalescer.0.lock();
        if in_flight.get(&self.fingerprint).is_some_and(Option::is_none) {
            in_flight.remove(&self.fingerprint);
        }
    }
}
