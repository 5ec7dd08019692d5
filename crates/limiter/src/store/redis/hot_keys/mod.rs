//! Hot keys: decisions of one worker that need no call of Redis, or share one.
//!
//! - [`denials`]: a denial is cached for as long as it certainly holds, unless tokens are returned meanwhile
//!   ([`invalidation`](super::invalidation)).
//! - [`coalescing`]: equal requests that arrive while a call is in flight share the next call.
//! - [`leases`]: where a limiter enables it, a call also takes requests in advance that are likely to follow.

mod check_set;
mod coalescing;
mod denials;
mod fingerprint;
mod hot_key;
mod lease;
mod leases;

use std::sync::Arc;

pub(crate) use self::check_set::{CheckSet, LeaseTerms};
use self::coalescing::Coalescer;
pub(crate) use self::coalescing::{Join, LeaderGuard};
pub(crate) use self::denials::DenialCache;
pub(crate) use self::fingerprint::Fingerprint;
use self::fingerprint::FingerprintSeed;
pub(crate) use self::hot_key::is_reply;
pub(crate) use self::leases::LeaseLookup;
use self::leases::Leases;
use super::client::RedisClient;
use super::command::CallOptions;
use crate::store::Check;
use crate::store::memory::MonotonicClock;

/// Knowledge about hot keys that all stores of one client share.
pub(crate) struct HotKeys {
    seed: FingerprintSeed,
    clock: Arc<MonotonicClock>,
    pub(crate) denials: Arc<DenialCache>,
    coalescer: Arc<Coalescer>,
    pub(crate) leases: Arc<Leases>,
}

impl HotKeys {
    /// Hot keys of the stores of `client`.
    pub(crate) fn of(client: &RedisClient) -> Arc<Self> {
        client.store_state(|| {
            let (context, clock) = (client.context(), Arc::default());
            let stats = || Arc::clone(&context.stats);
            Self {
                seed: FingerprintSeed::default(),
                denials: Arc::new(DenialCache::new(Arc::clone(&context.invalidations), stats())),
                coalescer: Arc::default(),
                leases: Arc::new(Leases::new(Arc::clone(&context.revocations), Arc::clone(&clock), stats())),
                clock,
            }
        })
    }

    pub(crate) fn fingerprint(&self, checks: &[Check<'_>], options: &CallOptions) -> Fingerprint {
        self.seed.fingerprint(checks, options)
    }

    /// Time by which denials and leases expire.
    pub(crate) fn now_us(&self, options: &CallOptions) -> u64 {
        options.now_us(&*self.clock)
    }
}

impl RedisClient {
    /// Returns leased requests that were not used to Redis (see `RedisStore::lease`), before an orderly shutdown.
    /// Otherwise they are available again once the bucket is full or the next window begins.
    pub async fn return_leases(&self) {
        HotKeys::of(self).leases.return_all().await;
    }
}
