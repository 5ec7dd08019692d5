//! Task that calls Redis for the followers of one fingerprint.

use std::sync::Arc;

use super::HotKeys;
use super::check_set::CheckSet;
use super::coalescer::{Coalescer, Follower};
use super::leases::LeaseOrigin;
use crate::store::redis::client::Request;
use crate::store::redis::command::{self, BatchSize};
use crate::store::redis::error::StoreError;
use crate::store::redis::invalidation::Generations;
use crate::verdict::{RuleVerdict, Verdict};

/// Most requests in one call. Redis runs nothing else during a script, and a log gets an entry for each request.
const MAX_REQUESTS: usize = 1_024;

/// Drops the followers if the task panics.
struct TaskGuard {
    coalescer: Arc<Coalescer>,
    fingerprint: u128,
    finished: bool,
}

/// A decoded reply: the number of admitted requests, the last one's verdict, and the answers.
type BatchReply = (u64, Verdict, Vec<RuleVerdict>);

/// A call that was sent, for what is cached of its reply.
struct SentCall {
    waiting: u64,
    generations: Generations,
    /// Versions of the keys by which a lease is revoked; `None`: no leases.
    key_versions: Option<Generations>,
    sent_us: u64,
}

/// Calls Redis until no follower waits.
pub(super) async fn run(hot_keys: Arc<HotKeys>, checks: Arc<CheckSet>) {
    let (coalescer, fingerprint) = (Arc::clone(&hot_keys.coalescer), checks.fingerprint.checks);
    let mut guard = TaskGuard { coalescer, fingerprint, finished: false };
    let most = checks.max_batch(MAX_REQUESTS);
    while let Some(followers) = hot_keys.coalescer.next(fingerprint, most) {
        let left = call_for(&hot_keys, &checks, followers).await;
        hot_keys.coalescer.put_back(fingerprint, left);
        // Clients of served requests may send the next ones: they join before the task finds no follower.
        tokio::task::yield_now().await;
    }
    guard.finished = true;
}

/// Calls Redis once for all `followers`. Returns those that wait for another call, since not all requests fit.
async fn call_for(hot_keys: &Arc<HotKeys>, checks: &Arc<CheckSet>, followers: Vec<Follower>) -> Vec<Follower> {
    // The request with the latest deadline.
    let Some(request) = followers.last().map(|last| last.request.clone()) else { return followers };
    let owner = request.clone();
    let waiting = followers.len() as u64;
    let fingerprint = checks.fingerprint.checks;
    let spare = checks.lease_terms.map_or(0, |terms| hot_keys.leases.spare_requests(fingerprint, terms));
    let requests = checks.max_batch(usize::try_from(waiting + spare).unwrap_or(followers.len())) as u64;
    let call = checks.call(BatchSize { requests, waiting });
    let sent = SentCall {
        waiting,
        generations: hot_keys.denials.generations(call.keys.iter()),
        key_versions: checks.lease_terms.map(|_| hot_keys.leases.key_versions(call.keys.iter())),
        sent_us: hot_keys.now_us(&checks.options),
    };
    let read = |reply: &_| {
        let (admitted, answers) = command::batch_answers(reply, checks.len())?;
        Some((admitted, checks.verdict(&answers, 0)?, answers))
    };
    let reply = request.decide(call, read).await;
    if reply.is_ok() {
        let late = followers.iter().filter(|follower| follower.reply.is_closed() && follower.is_late());
        late.for_each(|follower| follower.request.record_late());
    }
    match reply {
        Err(unanswered) => {
            fail(followers, unanswered.kind, &owner);
            Vec::new()
        }
        Ok((0, denied, _)) => {
            deny(hot_keys, checks, followers, denied, sent);
            Vec::new()
        }
        Ok(reply) => admit(hot_keys, checks, followers, reply, sent, owner),
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
fn deny(hot_keys: &HotKeys, checks: &Arc<CheckSet>, followers: Vec<Follower>, denied: Verdict, sent: SentCall) {
    if checks.denial_cache {
        let times = [sent.sent_us, hot_keys.now_us(&checks.options)];
        hot_keys.denials.record(checks.fingerprint, &denied, &checks.costs(), sent.generations, times);
    }
    hot_keys.leases.record_reply(checks, 0, None);
    followers.into_iter().for_each(|follower| drop(follower.reply.send(Ok(denied.clone()))));
}

/// Replies to the admitted followers, keeps spare requests as a lease, and returns the other followers.
fn admit(
    hot_keys: &HotKeys,
    checks: &Arc<CheckSet>,
    mut followers: Vec<Follower>,
    (admitted, last, answers): BatchReply,
    sent: SentCall,
    owner: Request,
) -> Vec<Follower> {
    if let Some(terms) = checks.lease_terms {
        let spare = admitted.saturating_sub(sent.waiting);
        let leased = sent.key_versions.filter(|_| spare > 0).map(|key_versions| {
            let lease = checks.lease(terms, &answers, spare, sent.sent_us);
            (lease, LeaseOrigin { checks: Arc::clone(checks), request: owner, key_versions })
        });
        hot_keys.leases.record_reply(checks, checks.further_requests(&answers), leased);
    }
    let left = followers.split_off(admitted.min(sent.waiting) as usize);
    for (follower, later) in followers.into_iter().zip((0..admitted).rev()) {
        let verdict = checks.verdict(&answers, later).unwrap_or_else(|| last.clone());
        drop(follower.reply.send(Ok(verdict)));
    }
    left
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if !self.finished {
            self.coalescer.abandon(self.fingerprint);
        }
    }
}
