//! Leases by fingerprint: taking requests from them, renewing them, and returning unused requests.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::check_set::{CheckSet, LeaseTerms};
use super::fingerprint::{Fingerprint, FingerprintMap};
use super::hot_key::{EndedLease, HotKey, LeaseOrigin};
use super::lease::Lease;
use crate::store::Check;
use crate::store::memory::MonotonicClock;
use crate::store::redis::invalidation::{Epoch, Invalidations, WatchedKeys};
use crate::store::redis::stats::RedisStats;
use crate::verdict::{Source, Verdict};

/// Most fingerprints with a request count; others are not leased.
const MAX_FINGERPRINTS: usize = 10_000;

/// Least time between two sweeps of a full map.
const SWEEP_INTERVAL_US: u64 = 100_000;

/// Leases by fingerprint.
pub(crate) struct Leases {
    hot_keys: Mutex<FingerprintMap<HotKey>>,
    /// Time of the next sweep of a full map, so that a flood of keys does not sweep for each.
    sweep_at_us: AtomicU64,
    revocations: Arc<Invalidations>,
    clock: Arc<MonotonicClock>,
    stats: Arc<RedisStats>,
}

/// Result of taking a request from a lease.
pub(crate) enum LeaseLookup {
    /// The request is allowed.
    Hit(Verdict),
    /// Redis must be called.
    Miss {
        /// True if equal requests are frequent enough for a lease.
        is_hot: bool,
    },
}

impl Leases {
    pub(super) fn new(revocations: Arc<Invalidations>, clock: Arc<MonotonicClock>, stats: Arc<RedisStats>) -> Self {
        Self { hot_keys: Mutex::default(), sweep_at_us: AtomicU64::new(0), revocations, clock, stats }
    }

    /// Returns the moment before a call is sent.
    pub(super) fn epoch(&self) -> Epoch {
        self.revocations.epoch()
    }

    /// Watches the keys of a call that was sent at `since`: a revocation of one ends the lease.
    pub(super) fn watch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, since: Epoch) -> WatchedKeys {
        self.revocations.watch(keys, since)
    }

    /// Counts a request and takes it from the lease if there is one.
    pub(crate) fn count_and_take(
        &self,
        fingerprint: Fingerprint,
        checks: &[Check<'_>],
        terms: LeaseTerms,
        now_us: u64,
    ) -> LeaseLookup {
        let fingerprint = fingerprint.checks;
        let mut hot_keys = self.hot_keys.lock();
        if hot_keys.len() >= MAX_FINGERPRINTS && !hot_keys.contains_key(&fingerprint) {
            if now_us < self.sweep_at_us.load(Ordering::Relaxed) {
                return LeaseLookup::Miss { is_hot: false };
            }
            let pause_us = terms.duration_us.max(SWEEP_INTERVAL_US);
            self.sweep_at_us.store(now_us.saturating_add(pause_us), Ordering::Relaxed);
            hot_keys.retain(|_, key| key.has_task || key.rate.is_recent(now_us, key.duration_us));
            if hot_keys.len() >= MAX_FINGERPRINTS {
                return LeaseLookup::Miss { is_hot: false };
            }
        }
        let key = hot_keys.entry(fingerprint).or_default();
        key.duration_us = terms.duration_us;
        key.rate.record(now_us, terms.duration_us);
        // Keys share versions, so the requests are returned: Redis refuses the return if an operator changed the key.
        let is_revoked = |(_, origin): &(_, LeaseOrigin)| !self.revocations.is_current(&origin.keys);
        if key.lease.as_ref().is_some_and(is_revoked) {
            key.end(now_us).into_iter().for_each(EndedLease::spawn_return);
        }
        let rule_verdicts = key.lease.as_mut().and_then(|(lease, _)| lease.take(now_us));
        let capacities = checks.iter().map(|check| check.rule.capacity());
        match rule_verdicts.and_then(|rule_verdicts| Verdict::combine(rule_verdicts, capacities, Source::Redis)) {
            Some(verdict) => {
                self.stats.lease_hits.increment();
                LeaseLookup::Hit(verdict)
            }
            None => LeaseLookup::Miss { is_hot: key.rate.is_hot() },
        }
    }

    /// Returns the number of spare requests to take with the next call.
    pub(super) fn spare_requests(&self, fingerprint: u128, terms: LeaseTerms) -> u64 {
        let hot_keys = self.hot_keys.lock();
        hot_keys.get(&fingerprint).map_or(0, |key| key.rate.spare_requests(key.further_requests, terms.gateways))
    }

    /// Records a reply: Redis allows `further_requests`, and `leased` is the new lease.
    pub(super) fn record_reply(
        self: &Arc<Self>,
        checks: &Arc<CheckSet>,
        further_requests: u64,
        leased: Option<(Lease, LeaseOrigin)>,
    ) {
        let fingerprint = checks.fingerprint.checks;
        let mut hot_keys = self.hot_keys.lock();
        let Some(key) = hot_keys.get_mut(&fingerprint) else { return };
        key.further_requests = further_requests;
        if leased.is_none() {
            return;
        }
        let ended = key.end(self.now_us(checks));
        key.lease = leased;
        let Ok(runtime) = Handle::try_current() else { return };
        if !key.has_task {
            key.has_task = true;
            runtime.spawn(return_after_end(Arc::clone(self), fingerprint, Arc::clone(checks)));
        }
        ended.into_iter().for_each(EndedLease::spawn_return);
    }

    /// Returns all unused requests of all leases.
    pub(super) async fn return_all(&self) {
        let leased = |(fingerprint, key): (&u128, &HotKey)| key.lease.as_ref().map(|_| *fingerprint);
        let leased: Vec<u128> = self.hot_keys.lock().iter().filter_map(leased).collect();
        for fingerprint in leased {
            // Ended one at a time: the returnable number shrinks with time.
            if let Some(ended) = self.end_now(fingerprint) {
                ended.return_requests().await;
            }
        }
    }

    fn now_us(&self, checks: &CheckSet) -> u64 {
        checks.options.now_us(&*self.clock)
    }

    /// Ends the lease if it is over, and its task then, or returns the time until its end.
    fn end_if_over(&self, fingerprint: u128, checks: &CheckSet) -> ControlFlow<Option<EndedLease>, Duration> {
        let now_us = self.now_us(checks);
        let mut hot_keys = self.hot_keys.lock();
        let Some(key) = hot_keys.get_mut(&fingerprint) else { return ControlFlow::Break(None) };
        match key.lease.as_ref().and_then(|(lease, _)| lease.until_us().checked_sub(now_us)) {
            Some(left_us @ 1..) => ControlFlow::Continue(Duration::from_micros(left_us)),
            Some(0) | None => {
                key.has_task = false;
                ControlFlow::Break(key.end(now_us))
            }
        }
    }

    /// Ends a lease before its time.
    fn end_now(&self, fingerprint: u128) -> Option<EndedLease> {
        let mut hot_keys = self.hot_keys.lock();
        let key = hot_keys.get_mut(&fingerprint)?;
        let (_, origin) = key.lease.as_ref()?;
        let now_us = self.now_us(&origin.checks);
        key.end(now_us)
    }
}

/// Waits for the end of a lease and of those that follow it, and returns unused requests.
async fn return_after_end(leases: Arc<Leases>, fingerprint: u128, checks: Arc<CheckSet>) {
    loop {
        match leases.end_if_over(fingerprint, &checks) {
            // At least a millisecond, the timer's resolution.
            ControlFlow::Continue(time_left) => tokio::time::sleep(time_left.max(Duration::from_millis(1))).await,
            ControlFlow::Break(Some(ended)) => return ended.return_requests().await,
            ControlFlow::Break(None) => return,
        }
    }
}
