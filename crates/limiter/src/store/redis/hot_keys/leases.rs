//! Leases by fingerprint: taking requests from them, renewing them, and returning unused requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::runtime::Handle;

use super::check_set::CheckSet;
pub(crate) use super::check_set::LeaseTerms;
use super::lease::Lease;
use super::request_rate::RequestRate;
use crate::store::memory::MonotonicClock;
use crate::store::redis::client::Request;
use crate::store::redis::command::{LeaseTimes, ScriptCall};
use crate::store::redis::invalidation::{Generations, Invalidations};
use crate::verdict::RuleVerdict;

/// Most fingerprints with a request count; others are not leased.
const MAX_FINGERPRINTS: usize = 10_000;

/// Least time between two sweeps of a full map.
const SWEEP_INTERVAL_US: u64 = 100_000;

/// Requests of one fingerprint.
#[derive(Default)]
struct Entry {
    rate: RequestRate,
    duration_us: u64,
    /// Further requests that Redis allowed in its last reply.
    room: u64,
    lease: Option<Lease>,
    owner: Option<LeaseOwner>,
    /// True while a task waits for the end of the lease.
    has_task: bool,
}

/// Checks and connection for returning unused requests.
#[derive(Clone)]
pub(super) struct LeaseOwner {
    pub(super) checks: Arc<CheckSet>,
    pub(super) request: Request,
    /// Generations of the keys when the call was sent. An operator's change ends the lease.
    pub(super) revocations: Generations,
}

/// Leases by fingerprint.
pub(super) struct Leases {
    entries: Mutex<HashMap<u128, Entry>>,
    /// Time of the next sweep of a full map, so that a flood of keys does not sweep for each.
    sweep_at_us: AtomicU64,
    invalidations: Arc<Invalidations>,
    revocations: Arc<Invalidations>,
    clock: Arc<MonotonicClock>,
}

/// Result of taking a request from a lease.
pub(crate) enum LeaseLookup {
    /// The request is allowed.
    Hit(Vec<RuleVerdict>),
    /// Redis must be called.
    Miss {
        /// True if equal requests are frequent enough for a lease.
        is_hot: bool,
    },
}

/// Result of checking whether a lease is over.
enum Expiry {
    NotYet,
    /// The lease is over; unused requests are to be returned.
    Over(Option<Box<EndedLease>>),
}

/// Unused requests of a lease that is over.
struct EndedLease {
    owner: LeaseOwner,
    requests: u64,
    times: LeaseTimes,
}

impl Leases {
    pub(super) fn new([invalidations, revocations]: [Arc<Invalidations>; 2], clock: Arc<MonotonicClock>) -> Self {
        Self { entries: Mutex::default(), sweep_at_us: AtomicU64::new(0), invalidations, revocations, clock }
    }

    /// Generations of the keys of a call that is about to be sent, by which its lease is revoked.
    pub(super) fn generations<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Generations {
        self.revocations.generations(keys)
    }

    /// Counts a request and takes it from the lease if there is one.
    pub(super) fn take(self: &Arc<Self>, fingerprint: u128, terms: LeaseTerms, now_us: u64) -> LeaseLookup {
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_FINGERPRINTS && !entries.contains_key(&fingerprint) {
            if now_us < self.sweep_at_us.load(Ordering::Relaxed) {
                return LeaseLookup::Miss { is_hot: false };
            }
            let pause_us = terms.duration_us.max(SWEEP_INTERVAL_US);
            self.sweep_at_us.store(now_us.saturating_add(pause_us), Ordering::Relaxed);
            entries.retain(|_, entry| entry.has_task || entry.rate.is_recent(now_us, entry.duration_us));
            if entries.len() >= MAX_FINGERPRINTS {
                return LeaseLookup::Miss { is_hot: false };
            }
        }
        let entry = entries.entry(fingerprint).or_default();
        entry.duration_us = terms.duration_us;
        entry.rate.record(now_us, terms.duration_us);
        if entry.is_revoked(&self.revocations)
            && let Some(ended) = entry.end(now_us)
        {
            self.spawn_return(ended);
        }
        match entry.lease.as_mut().and_then(|lease| lease.take(now_us)) {
            Some(answers) => LeaseLookup::Hit(answers),
            None => LeaseLookup::Miss { is_hot: entry.rate.is_hot() },
        }
    }

    /// Returns the number of spare requests to take with the next call.
    pub(super) fn spare_requests(&self, fingerprint: u128, terms: LeaseTerms) -> u64 {
        let entries = self.entries.lock();
        entries.get(&fingerprint).map_or(0, |entry| entry.rate.spare_requests(entry.room, terms.gateways))
    }

    /// Records a reply: Redis allows `room` further requests, and `leased` is the new lease.
    pub(super) fn record_reply(
        self: &Arc<Self>,
        checks: &Arc<CheckSet>,
        room: u64,
        leased: Option<(Lease, LeaseOwner)>,
    ) {
        let fingerprint = checks.fingerprint.checks;
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&fingerprint) else { return };
        entry.room = room;
        let Some((lease, owner)) = leased else { return };
        let ended = entry.end(self.now_us(checks));
        entry.lease = Some(lease);
        entry.owner = Some(owner);
        let Ok(runtime) = Handle::try_current() else { return };
        if !entry.has_task {
            entry.has_task = true;
            runtime.spawn(expire(Arc::clone(self), fingerprint, Arc::clone(checks)));
        }
        if let Some(ended) = ended {
            self.spawn_return(ended);
        }
    }

    /// Returns the requests of a lease; the caller does not wait.
    fn spawn_return(self: &Arc<Self>, ended: EndedLease) {
        let Ok(runtime) = Handle::try_current() else { return };
        let leases = Arc::clone(self);
        runtime.spawn(async move { ended.return_requests(&leases.invalidations).await });
    }

    /// Returns all unused requests of all leases.
    pub(super) async fn return_all(&self) {
        for fingerprint in self.leased() {
            // Ended one at a time: the returnable number shrinks with time.
            if let Some(ended) = self.end_now(fingerprint) {
                ended.return_requests(&self.invalidations).await;
            }
        }
    }

    fn now_us(&self, checks: &CheckSet) -> u64 {
        checks.options.now_us(&*self.clock)
    }

    /// End of the lease; `None` without one.
    fn until_us(&self, fingerprint: u128) -> Option<u64> {
        self.entries.lock().get(&fingerprint)?.lease.as_ref().map(Lease::until_us)
    }

    /// Ends the lease if it is over at `now_us`; its task ends then.
    fn end_if_over(&self, fingerprint: u128, now_us: u64) -> Expiry {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&fingerprint) else { return Expiry::Over(None) };
        if entry.lease.as_ref().is_some_and(|lease| now_us < lease.until_us()) {
            return Expiry::NotYet;
        }
        entry.has_task = false;
        Expiry::Over(entry.end(now_us).map(Box::new))
    }

    /// Fingerprints with a lease.
    fn leased(&self) -> Vec<u128> {
        self.entries.lock().iter().filter(|(_, entry)| entry.lease.is_some()).map(|(key, _)| *key).collect()
    }

    /// Ends a lease before its time.
    fn end_now(&self, fingerprint: u128) -> Option<EndedLease> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&fingerprint)?;
        let now_us = self.now_us(&entry.owner.as_ref()?.checks);
        entry.end(now_us)
    }
}

impl Entry {
    /// Returns true if an operator may have changed a key of the lease. Keys share generations, so its requests are
    /// returned: Redis refuses the return if the key was changed.
    fn is_revoked(&self, revocations: &Invalidations) -> bool {
        self.owner.as_ref().is_some_and(|owner| !revocations.is_current(&owner.revocations))
    }

    fn end(&mut self, now_us: u64) -> Option<EndedLease> {
        let (mut lease, owner) = (self.lease.take()?, self.owner.take()?);
        // Latest time at which Redis counts the return.
        let timeout_us = u64::try_from(owner.request.timeout().as_micros()).unwrap_or(u64::MAX);
        let (requests, times) = lease.end(now_us.saturating_add(timeout_us));
        (requests > 0).then_some(EndedLease { owner, requests, times })
    }
}

impl EndedLease {
    async fn return_requests(self, invalidations: &Invalidations) {
        let Self { owner: LeaseOwner { checks, request, .. }, requests, times } = self;
        return_taken(request.renew(), &checks.return_call(requests, times), &checks.notice_keys(), invalidations).await;
    }
}

/// Sends `call`, which returns what was taken, and notifies all gateways of `keys`.
pub(crate) async fn return_taken(request: Request, call: &ScriptCall, keys: &[Vec<u8>], invalidations: &Invalidations) {
    keys.iter().for_each(|key| invalidations.invalidate(key));
    let notices: Vec<_> = keys.iter().map(|key| (request.notifier(), key)).collect();
    let reply = request.run(&call.script, &call.cmd, |reply| matches!(reply, Value::Array(_)).then_some(())).await;
    keys.iter().for_each(|key| invalidations.invalidate(key));
    if reply.is_ok() {
        for (notifier, key) in notices {
            notifier.returned(key).await;
        }
    }
}

/// Waits for the end of a lease and of those that follow it, and returns unused requests.
async fn expire(leases: Arc<Leases>, fingerprint: u128, checks: Arc<CheckSet>) {
    loop {
        if let Some(until_us) = leases.until_us(fingerprint) {
            let left_us = until_us.saturating_sub(leases.now_us(&checks));
            // At least a millisecond, the timer's resolution.
            tokio::time::sleep(Duration::from_micros(left_us.max(1_000))).await;
        }
        match leases.end_if_over(fingerprint, leases.now_us(&checks)) {
            Expiry::NotYet => {}
            Expiry::Over(Some(ended)) => return ended.return_requests(&leases.invalidations).await,
            Expiry::Over(None) => return,
        }
    }
}
