//! Where a limiter keeps its buckets, from the operator's side.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::RedisStore;
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;

use crate::admin::limits::{AdminState, Refused};
use tollgate_config::{Atomicity, Config, RateLimiter, StoreKind};

/// One of the two stores.
pub(super) enum Kept {
    Memory(Arc<MemoryStore>),
    Redis(RedisStore),
}

impl Kept {
    /// Where `limiter` keeps its buckets.
    pub(super) fn of(limiter: &RateLimiter, config: &Config, state: &AdminState) -> Result<Self, Refused> {
        let memory = state.limits.memory();
        let redis = match (limiter.store, &config.redis) {
            (Some(StoreKind::Memory), _) | (_, None) => return Ok(Self::Memory(Arc::clone(memory))),
            _ if limiter.atomicity != Atomicity::Script => return Err(Refused::Locked),
            (_, Some(redis)) => redis,
        };
        let client = state.limits.redis_client().ok_or(Refused::OutOfReach)?;
        let store = RedisStore::new(client, Arc::clone(memory), OnStoreFailure::Deny);
        Ok(Self::Redis(store.hash_keys(redis.hash_keys).denial_cache(false)))
    }

    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
    }

    /// What is left, and in what time nothing is spent any more. Takes nothing.
    pub(super) async fn look(&self, key: BucketKey<'_>, rule: &Rule) -> Result<(u64, Duration), Refused> {
        let (remaining, reset_after, _) = self.standing(key, rule).await?;
        Ok((remaining, reset_after))
    }

    async fn standing(&self, key: BucketKey<'_>, rule: &Rule) -> Result<(u64, Duration, u64), Refused> {
        let checks = [Check { key, rule, cost: 0 }];
        let decision = match self {
            Self::Memory(store) => store.decide(&checks),
            Self::Redis(store) => store.decide(&checks),
        };
        let verdict = match decision {
            Decision::Ready(verdict) => verdict,
            Decision::Pending(verdict) => verdict.await,
        };
        match verdict.remaining {
            Some(remaining) if verdict.source != Source::Fallback => {
                Ok((remaining, verdict.reset_after, verdict.counted_at_us))
            }
            _ => Err(Refused::OutOfReach),
        }
    }

    /// Leaves `remaining`, or as near to it as the rule can: no more than its capacity, and no more than is still counted.
    pub(super) async fn set(&self, key: BucketKey<'_>, rule: &Rule, remaining: u64) -> Result<(), Refused> {
        if let Rule::Quota(quota) = rule {
            match self {
                Self::Memory(store) => {
                    store.set_quota(key, quota, remaining);
                }
                Self::Redis(store) => {
                    store.set_quota(key, quota, remaining).await.map_err(|_| Refused::OutOfReach)?;
                }
            }
            return Ok(());
        }
        let (left, _, now_us) = self.standing(key, rule).await?;
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.settle(key, rule, signed(left) - signed(remaining), now_us).await
    }

    /// Gives `more` back, or takes as much when it is negative.
    pub(super) async fn grant(&self, key: BucketKey<'_>, rule: &Rule, more: i64) -> Result<(), Refused> {
        if let Rule::Quota(quota) = rule {
            match self {
                Self::Memory(store) => {
                    store.grant_quota(key, quota, more);
                }
                Self::Redis(store) => {
                    store.grant_quota(key, quota, more).await.map_err(|_| Refused::OutOfReach)?;
                }
            }
            return Ok(());
        }
        let (_, _, now_us) = self.standing(key, rule).await?;
        self.settle(key, rule, more.saturating_neg(), now_us).await
    }

    async fn settle(&self, key: BucketKey<'_>, rule: &Rule, more: i64, now_us: u64) -> Result<(), Refused> {
        let check = Check { key, rule, cost: 0 };
        match self {
            Self::Memory(store) => store.settle(check, more, now_us),
            Self::Redis(store) if !store.settle_confirmed(check, more, now_us).await => {
                return Err(Refused::OutOfReach);
            }
            Self::Redis(_) => {}
        }
        Ok(())
    }

    /// Forgets what was spent.
    pub(super) async fn forget(&self, key: BucketKey<'_>, rule: &Rule) -> Result<(), Refused> {
        match self {
            Self::Memory(store) => store.forget(key, rule),
            Self::Redis(store) => {
                store.forget(Check { key, rule, cost: 0 }).await.map_err(|_| Refused::OutOfReach)?;
            }
        }
        Ok(())
    }
}
