//! Hot keys: decisions of one worker that need no call of Redis, or share one.
//!
//! - [`denials`]: a denial is cached for as long as it certainly holds, unless tokens are returned meanwhile
//!   ([`invalidation`](super::invalidation)).
//! - [`coalescer`]: equal requests that arrive while a call is in flight share the next call.
//! - [`leases`]: where a limiter enables it, a call also takes requests in advance that are likely to follow.

mod call;
mod check_set;
mod coalescer;
mod denials;
mod fingerprint;
mod lease;
mod leases;
mod request_rate;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

pub(crate) use self::check_set::CheckSet;
use self::coalescer::Coalescer;
pub(crate) use self::coalescer::{Join, LeaderGuard};
use self::denials::{CachedDenial, DenialCache};
pub(crate) use self::fingerprint::Fingerprint;
use self::fingerprint::FingerprintSeeds;
use self::leases::Leases;
pub(crate) use self::leases::{LeaseLookup, LeaseTerms, return_taken};
use super::client::{RedisClient, Request};
use super::command::CallOptions;
use super::invalidation::{Generations, Invalidations};
use super::stats::RedisStats;
use crate::store::Check;
use crate::store::memory::MonotonicClock;
use crate::verdict::Verdict;

/// Knowledge about hot keys that all stores of one client share.
pub(crate) struct HotKeys {
    seeds: FingerprintSeeds,
    denials: Mutex<DenialCache>,
    coalescer: Arc<Coalescer>,
    leases: Arc<Leases>,
    invalidations: Arc<Invalidations>,
    clock: Arc<MonotonicClock>,
    stats: Arc<RedisStats>,
}

impl HotKeys {
    /// Hot keys of the stores of `client`.
    pub(crate) fn of(client: &RedisClient) -> Arc<Self> {
        client.store_state(|| {
            let (clock, invalidations) = (Arc::default(), Arc::clone(client.invalidations()));
            let revocations = Arc::clone(&client.context().revocations);
            Self {
                seeds: FingerprintSeeds::default(),
                denials: Mutex::default(),
                coalescer: Arc::default(),
                leases: Arc::new(Leases::new([Arc::clone(&invalidations), revocations], Arc::clone(&clock))),
                invalidations,
                clock,
                stats: Arc::clone(&client.context().stats),
            }
        })
    }

    pub(crate) fn fingerprint(&self, checks: &[Check<'_>], options: &CallOptions) -> Fingerprint {
        self.seeds.fingerprint(checks, options)
    }

    /// Time by which denials and leases expire.
    pub(crate) fn now_us(&self, options: &CallOptions) -> u64 {
        options.now_us(&*self.clock)
    }

    /// Cached denial of `checks` at `now_us`, if there is one.
    pub(crate) fn cached_denial(&self, fingerprint: Fingerprint, checks: &[Check<'_>], now_us: u64) -> Option<Verdict> {
        let verdict = self.find_denial(fingerprint, checks, now_us)?;
        self.stats.denial_cache_hits.fetch_add(1, Ordering::Relaxed);
        Some(verdict)
    }

    /// Cached denial of `checks`, without counting it as used.
    pub(crate) fn find_denial(&self, fingerprint: Fingerprint, checks: &[Check<'_>], now_us: u64) -> Option<Verdict> {
        let denials = self.denials.lock();
        let (denial, verdict) = denials.find(fingerprint, checks, now_us)?;
        self.invalidations.is_current(&denial.generations).then_some(verdict)
    }

    /// Generations of the keys of a call that is about to be sent.
    pub(crate) fn generations<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Generations {
        self.invalidations.generations(keys)
    }

    /// Caches `verdict` if it is a denial. `generations` and the first time are from when the call was sent.
    pub(crate) fn cache_denial(
        &self,
        fingerprint: Fingerprint,
        verdict: &Verdict,
        costs: &[u64],
        generations: Generations,
        [sent_us, now_us]: [u64; 2],
    ) {
        if let Some(denial) = CachedDenial::of(verdict, costs, generations, sent_us, now_us)
            && self.invalidations.is_current(&denial.generations)
        {
            self.denials.lock().insert(fingerprint, denial);
        }
    }

    /// Becomes the leader of equal requests; `None` if there is one in flight.
    pub(crate) fn lead(&self, fingerprint: Fingerprint) -> Option<LeaderGuard> {
        self.coalescer.lead(fingerprint.checks)
    }

    /// Joins the equal requests in flight: as the leader, which calls Redis itself, or as a follower of a shared call.
    /// `always_follow` makes the first request a follower too.
    pub(crate) fn join(
        self: &Arc<Self>,
        fingerprint: Fingerprint,
        request: Request,
        always_follow: bool,
        checks: impl FnOnce() -> CheckSet,
    ) -> Join {
        let start = || call::run(Arc::clone(self), Arc::new(checks()));
        self.coalescer.join(fingerprint.checks, request, always_follow, start)
    }

    /// Counts a request that may be leased, and takes it from the lease if there is one.
    pub(crate) fn take_leased(&self, fingerprint: Fingerprint, terms: LeaseTerms, now_us: u64) -> LeaseLookup {
        let lookup = self.leases.take(fingerprint.checks, terms, now_us);
        self.stats.lease_hits.fetch_add(u64::from(matches!(lookup, LeaseLookup::Hit(_))), Ordering::Relaxed);
        lookup
    }
}

impl RedisClient {
    /// Returns leased requests that were not used to Redis (see `RedisStore::lease`), before an orderly shutdown.
    /// Otherwise they are available again once the bucket is full or the next window begins.
    pub async fn return_leases(&self) {
        HotKeys::of(self).leases.return_all().await;
    }
}
