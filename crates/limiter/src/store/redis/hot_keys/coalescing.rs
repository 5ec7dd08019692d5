//! Coalescing: equal requests that arrive while a call is in flight share the next call.
//!
//! The first request is the leader and calls Redis itself. Requests that arrive before its reply are followers: a task
//! calls Redis for all followers that wait, again and again until none does. So no request depends on another one, which
//! may be dropped, but on that task; if the task panics, its followers are notified at once.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::HotKeys;
use super::check_set::CheckSet;
use super::denials::SentCall;
use super::fingerprint::{Fingerprint, FingerprintMap};
use super::hot_key::LeaseOrigin;
use crate::store::redis::client::Request;
use crate::store::redis::command::{self, BatchSize};
use crate::store::redis::error::StoreError;
use crate::store::redis::invalidation::Epoch;
use crate::verdict::{RuleVerdict, Verdict};

/// Most requests in one call. Redis runs nothing else during a script, and a log gets an entry for each request.
const MAX_REQUESTS: usize = 1_024;

/// Most followers of one call; later requests call Redis themselves.
const MAX_FOLLOWERS: usize = 4_096;

/// Requests in flight by fingerprint. `None`: only the leader; otherwise the followers that a task serves.
#[derive(Default)]
pub(super) struct Coalescer(Mutex<FingerprintMap<Option<VecDeque<Follower>>>>);

/// A request that waits for a shared call.
struct Follower {
    request: Request,
    reply: oneshot::Sender<Result<Verdict, StoreError>>,
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

/// Drops the followers if the task panics.
struct TaskGuard {
    coalescer: Arc<Coalescer>,
    fingerprint: u128,
    finished: bool,
}

/// A decoded reply: the number of admitted requests, the last one's verdict, and the verdicts of its rules.
type BatchReply = (u64, Verdict, Vec<RuleVerdict>);

/// A call for followers that was sent.
struct SharedCall {
    waiting: u64,
    sent: SentCall,
    /// Moment among the revocations of leases.
    lease_epoch: Epoch,
}

impl HotKeys {
    /// Joins the equal requests in flight: as the leader, which calls Redis itself, or as a follower of a shared call.
    /// `always_follow` makes the first request a follower too.
    pub(crate) fn join(
        self: &Arc<Self>,
        fingerprint: Fingerprint,
        request: Request,
        always_follow: bool,
        checks: impl FnOnce() -> CheckSet,
    ) -> Join {
        let start = || run(Arc::clone(self), Arc::new(checks()));
        self.coalescer.join(fingerprint.checks, request, always_follow, start)
    }
}

impl Coalescer {
    /// Joins the requests with that fingerprint. `start` returns the task that calls Redis for followers.
    /// `always_follow` makes the first request a follower too.
    fn join<T: Future<Output = ()> + Send + 'static>(
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

    /// Takes up to `max_followers`, oldest first. `None`: none waits, and the task ends.
    fn next(&self, fingerprint: u128, max_followers: usize) -> Option<Vec<Follower>> {
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
            std::iter::from_fn(|| followers.pop_front()).filter(waits).take(max_followers).collect()
        };
        if batch.is_empty() {
            in_flight.remove(&fingerprint);
            return None;
        }
        Some(batch)
    }

    /// Puts followers that were not served back in front.
    fn put_back(&self, fingerprint: u128, followers: Vec<Follower>) {
        if let Some(Some(queue)) = self.0.lock().get_mut(&fingerprint) {
            followers.into_iter().rev().for_each(|follower| queue.push_front(follower));
        }
    }
}

impl Follower {
    /// Returns true if the deadline has passed.
    fn is_late(&self) -> bool {
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

/// Calls Redis until no follower waits.
async fn run(hot_keys: Arc<HotKeys>, checks: Arc<CheckSet>) {
    let (coalescer, fingerprint) = (Arc::clone(&hot_keys.coalescer), checks.fingerprint.checks);
    let mut guard = TaskGuard { coalescer, fingerprint, finished: false };
    let max_followers = checks.max_batch(MAX_REQUESTS);
    while let Some(followers) = hot_keys.coalescer.next(fingerprint, max_followers) {
        let unserved = call_for(&hot_keys, &checks, followers).await;
        hot_keys.coalescer.put_back(fingerprint, unserved);
        // Clients of served requests may send the next ones: they join before the task finds no follower.
        tokio::task::yield_now().await;
    }
    guard.finished = true;
}

/// Calls Redis once for all `followers`. Returns those that wait for another call, since not all requests fit.
async fn call_for(hot_keys: &Arc<HotKeys>, checks: &Arc<CheckSet>, followers: Vec<Follower>) -> Vec<Follower> {
    // The request with the latest deadline.
    let Some(mut request) = followers.last().map(|last| last.request.clone()) else { return followers };
    let waiting = followers.len() as u64;
    let fingerprint = checks.fingerprint.checks;
    let spare = checks.lease_terms.map_or(0, |terms| hot_keys.leases.spare_requests(fingerprint, terms));
    let requests = checks.max_batch(usize::try_from(waiting + spare).unwrap_or(followers.len())) as u64;
    let call = checks.call(BatchSize { requests, waiting });
    let sent = checks.denials.sending(call, hot_keys.now_us(&checks.options));
    let shared = SharedCall { waiting, sent, lease_epoch: hot_keys.leases.epoch() };
    let read = |reply: &_| {
        let (admitted, rule_verdicts) = command::batch_verdicts(reply, checks.len())?;
        Some((admitted, checks.verdict(&rule_verdicts, 0)?, rule_verdicts))
    };
    let reply = request.decide(Arc::clone(&shared.sent.call), read).await;
    if reply.is_ok() {
        let late = followers.iter().filter(|follower| follower.reply.is_closed() && follower.is_late());
        late.for_each(|follower| follower.request.record_late());
    }
    match reply {
        Err(unanswered) => {
            fail(followers, unanswered.kind, &request);
            Vec::new()
        }
        Ok((0, denied, _)) => {
            deny(hot_keys, checks, followers, denied, &shared.sent);
            Vec::new()
        }
        Ok(reply) => admit(hot_keys, checks, followers, reply, shared, request),
    }
}

/// Replies to all followers that the call failed.
fn fail(followers: Vec<Follower>, kind: StoreError, request: &Request) {
    // Followers that reached their deadline meanwhile count too.
    let failed = followers.iter().filter(|follower| !follower.reply.is_closed() || follower.is_late()).count();
    request.record_failure_of_others(kind, failed.saturating_sub(1));
    followers.into_iter().for_each(|follower| drop(follower.reply.send(Err(kind))));
}

/// Replies to all followers that they are denied.
fn deny(hot_keys: &HotKeys, checks: &Arc<CheckSet>, followers: Vec<Follower>, denied: Verdict, sent: &SentCall) {
    checks.denials.record(checks.fingerprint, &denied, checks.costs(), sent, || hot_keys.now_us(&checks.options));
    hot_keys.leases.record_reply(checks, 0, None);
    followers.into_iter().for_each(|follower| drop(follower.reply.send(Ok(denied.clone()))));
}

/// Replies to the admitted followers, keeps spare requests as a lease, and returns the other followers.
fn admit(
    hot_keys: &HotKeys,
    checks: &Arc<CheckSet>,
    mut followers: Vec<Follower>,
    (admitted, last, rule_verdicts): BatchReply,
    SharedCall { waiting, sent, lease_epoch }: SharedCall,
    owner: Request,
) -> Vec<Follower> {
    if let Some(terms) = checks.lease_terms {
        let spare = admitted.saturating_sub(waiting);
        let leased = (spare > 0).then(|| {
            let lease = checks.lease(terms, &rule_verdicts, spare, sent.sent_us);
            let keys = hot_keys.leases.watch(sent.call.keys.iter(), lease_epoch);
            (lease, LeaseOrigin { checks: Arc::clone(checks), request: owner, keys })
        });
        hot_keys.leases.record_reply(checks, checks.further_requests(&rule_verdicts), leased);
    }
    let unserved = followers.split_off(admitted.min(waiting) as usize);
    for (follower, later) in followers.into_iter().zip((0..admitted).rev()) {
        let verdict = checks.verdict(&rule_verdicts, later).unwrap_or_else(|| last.clone());
        drop(follower.reply.send(Ok(verdict)));
    }
    unserved
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if !self.finished {
            drop(self.coalescer.0.lock().remove(&self.fingerprint));
        }
    }
}
