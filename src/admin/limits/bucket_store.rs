//! Reads and writes of single buckets, for the limits API.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{MAX_SAFE_INTEGER, Rule, RuleShape};
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::RedisStore;
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Outcome, RuleVerdict, Source};

use crate::admin::admin_state::AdminState;
use crate::admin::limits::change::{Change, Lost};
use crate::admin::limits::error::LimitsError;
use crate::admin::reply::whole_millis;
use tollgate_config::{Atomicity, Config, Filter, RateLimiter, StoreKind};
use tollgate_proxy::state::overrides::EffectiveRule;

/// Store of a limiter's buckets.
pub(in crate::admin) enum BucketStore {
    Memory(Arc<MemoryStore>),
    Redis(RedisStore),
}

/// State of a key, after a grant if there was one.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::admin) struct Reading {
    /// Remaining tokens.
    remaining: u64,
    /// Time until all tokens are back.
    reset_after_ms: u64,
}

impl Reading {
    fn new(remaining: u64, reset_after: Duration) -> Self {
        Self { remaining, reset_after_ms: whole_millis(reset_after) }
    }
}

/// State of a key for a request.
pub(in crate::admin) struct Probe {
    /// Remaining tokens.
    pub(in crate::admin) remaining: u64,
    /// Time until all tokens are back.
    pub(in crate::admin) reset_after: Duration,
    /// True if the rule would not admit the request.
    pub(in crate::admin) is_exceeded: bool,
    /// Time until it would; `None` if it would now, or never does.
    pub(in crate::admin) retry_after: Option<Duration>,
}

impl Probe {
    /// Returns the state under a temporary override.
    pub(in crate::admin) fn under(self, effective: Option<&(EffectiveRule, Duration)>) -> Self {
        match effective {
            Some((EffectiveRule::Unlimited, _)) => Self { is_exceeded: false, retry_after: None, ..self },
            Some((EffectiveRule::Blocked, left)) => Self { is_exceeded: true, retry_after: Some(*left), ..self },
            Some((EffectiveRule::Rule(_), _)) | None => self,
        }
    }
}

impl BucketStore {
    /// Returns the store of `limiter`.
    pub(super) fn of(limiter: &RateLimiter, config: &Config, state: &AdminState) -> Result<Self, LimitsError> {
        Self::at(limiter.store, limiter.atomicity != Atomicity::Script, config, state)
    }

    /// Returns the store of a limiter with `kind`, under `atomicity: lock` if `is_locked`.
    pub(in crate::admin) fn at(
        kind: Option<StoreKind>,
        is_locked: bool,
        config: &Config,
        state: &AdminState,
    ) -> Result<Self, LimitsError> {
        let memory = &state.stores.memory;
        let redis = match (kind, &config.redis) {
            (Some(StoreKind::Memory), _) | (_, None) => return Ok(Self::Memory(Arc::clone(memory))),
            _ if is_locked => return Err(LimitsError::Locked),
            (_, Some(redis)) => redis,
        };
        let client = state.stores.redis_client().ok_or(LimitsError::Unreachable)?;
        let store = RedisStore::new(client, Arc::clone(memory), OnStoreFailure::Deny);
        Ok(Self::Redis(store.hash_keys(redis.hash_keys).denial_cache(false)))
    }

    /// Returns the name of the store in responses.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
    }

    /// Returns the remaining tokens and the time until the bucket is full. Consumes nothing.
    pub(super) async fn read(&self, key: BucketKey<'_>, rule: &Rule) -> Result<(u64, Duration), LimitsError> {
        let (remaining, reset_after, _) = self.query(key, rule).await?;
        Ok((remaining, reset_after))
    }

    /// Reads each key of `grants`, after a grant to it if there is one, which needs a `quota`. In Redis this is one pipeline
    /// to each server.
    pub(super) async fn read_all(
        &self,
        rule: &Rule,
        grants: &[(BucketKey<'_>, Option<u64>)],
    ) -> Vec<Result<Reading, Lost>> {
        match self {
            Self::Redis(store) => {
                let reading = |verdict: RuleVerdict| Reading::new(verdict.remaining, verdict.reset_after);
                let verdicts = store.read_all(rule, grants).await.into_iter();
                verdicts.map(|verdict| verdict.map(reading).map_err(Lost::from)).collect()
            }
            Self::Memory(store) => {
                let mut readings = Vec::with_capacity(grants.len());
                for &(key, grant) in grants {
                    if let (Rule::Quota(quota), Some(grant)) = (rule, grant) {
                        store.grant_quota(key, quota, i64::try_from(grant).unwrap_or(i64::MAX));
                    }
                    let read = self.read(key, rule).await;
                    let reading = read.map(|(remaining, reset_after)| Reading::new(remaining, reset_after));
                    readings.push(reading.map_err(|_| Lost::unsent()));
                }
                readings
            }
        }
    }

    /// Returns the state of `key` for a request of `cost` tokens. Consumes nothing.
    pub(in crate::admin) async fn probe(
        &self,
        key: BucketKey<'_>,
        rule: &Rule,
        cost: u64,
    ) -> Result<Probe, LimitsError> {
        if let Self::Memory(store) = self {
            let verdict = store.probe(Check { key, rule, cost });
            let (remaining, reset_after) = self.read(key, rule).await?;
            let is_exceeded = verdict.outcome != Outcome::Allowed;
            let retry_after =
                if let Outcome::Denied { retry_after } = verdict.outcome { Some(retry_after) } else { None };
            return Ok(Probe { remaining, reset_after, is_exceeded, retry_after });
        }
        let (remaining, reset_after) = self.read(key, rule).await?;
        let is_exceeded = cost > remaining;
        let can_pass = is_exceeded && cost <= rule.capacity();
        // The script tells the time only if it denies the request, which would count. A bucket refills steadily; the
        // tokens of other rules are back when all are.
        let retry_after = can_pass.then(|| match rule.shape() {
            RuleShape::Bucket { rate, period, burst } => {
                let spare_us = u128::from(burst - cost) * period.as_micros() / u128::from(rate.max(1));
                reset_after.saturating_sub(Duration::from_micros(u64::try_from(spare_us).unwrap_or(u64::MAX)))
            }
            _ => reset_after,
        });
        Ok(Probe { remaining, reset_after, is_exceeded, retry_after })
    }

    /// Returns the remaining tokens, the time until the bucket is full, and the time of the reading in microseconds.
    async fn query(&self, key: BucketKey<'_>, rule: &Rule) -> Result<(u64, Duration, u64), LimitsError> {
        let checks = [Check { key, rule, cost: 0 }];
        let decision = match self {
            Self::Memory(store) => store.decide(&checks, &[]),
            Self::Redis(store) => store.decide(&checks, &[]),
        };
        let verdict = decision.verdict().await;
        match verdict.remaining {
            Some(remaining) if verdict.source != Source::Fallback => {
                Ok((remaining, verdict.reset_after, verdict.counted_at_us))
            }
            _ => Err(LimitsError::Unreachable),
        }
    }

    /// Returns true if `change` ends leases on keys of `rule`: a limiter of `config` has leases, perhaps on a shared bucket.
    pub(super) fn ends_leases(&self, rule: &Rule, change: Change, config: &Config) -> bool {
        let mut filters = config.routes.iter().flat_map(|route| &route.filters);
        matches!(self, Self::Redis(_))
            && matches!(change, Change::Set(_) | Change::Reset)
            && RedisStore::supports_lease(rule)
            && filters.any(|filter| matches!(filter, Filter::RequestRateLimiter(limiter) if limiter.lease.is_some()))
    }

    /// Applies a change. If it ends leases, no gateway uses or returns earlier ones after [`RedisStore::MAX_LEASE`].
    pub(super) async fn change(
        &self,
        key: BucketKey<'_>,
        rule: &Rule,
        change: Change,
        ends_leases: bool,
    ) -> Result<(), Lost> {
        match self {
            Self::Redis(store) if ends_leases => {
                store.change_leased(Check { key, rule, cost: 0 }, self.apply(key, rule, change)).await
            }
            _ => self.apply(key, rule, change).await,
        }
    }

    async fn apply(&self, key: BucketKey<'_>, rule: &Rule, change: Change) -> Result<(), Lost> {
        match change {
            Change::Grant(more) => self.grant(key, rule, more).await,
            Change::Set(remaining) => self.set(key, rule, remaining).await,
            Change::Reset => self.forget(key, rule).await,
        }
    }

    /// Sets the remaining tokens to `remaining`, or as close as the rule allows: at most its capacity, and at most what
    /// the window still counts.
    async fn set(&self, key: BucketKey<'_>, rule: &Rule, remaining: u64) -> Result<(), Lost> {
        if let Rule::Quota(quota) = rule {
            match self {
                Self::Memory(store) => {
                    store.set_quota(key, quota, remaining);
                }
                Self::Redis(store) => {
                    store.set_quota(key, quota, remaining).await?;
                }
            }
            return Ok(());
        }
        let (left, _, now_us) = self.query(key, rule).await.map_err(|_| Lost::unsent())?;
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.settle(key, rule, signed(left) - signed(remaining), now_us).await
    }

    /// Adds `more` tokens.
    async fn grant(&self, key: BucketKey<'_>, rule: &Rule, more: i64) -> Result<(), Lost> {
        if let Rule::Quota(quota) = rule {
            match self {
                Self::Memory(store) => {
                    store.grant_quota(key, quota, more);
                }
                Self::Redis(store) => {
                    store.grant_quota(key, quota, more).await?;
                }
            }
            return Ok(());
        }
        let (_, _, now_us) = self.query(key, rule).await.map_err(|_| Lost::unsent())?;
        self.settle(key, rule, more.saturating_neg(), now_us).await
    }

    /// Charges `more` tokens; refunds them if it is negative.
    async fn settle(&self, key: BucketKey<'_>, rule: &Rule, more: i64, now_us: u64) -> Result<(), Lost> {
        let check = Check { key, rule, cost: 0 };
        // To a bucket, all of it is added: no part of a change has been refilled since.
        let is_bucket = matches!(rule, Rule::TokenBucket(_) | Rule::Gcra(_));
        let counted_at_us = if is_bucket { MAX_SAFE_INTEGER } else { now_us };
        match self {
            Self::Memory(store) => store.settle(check, more, counted_at_us),
            Self::Redis(store) => store.settle_confirmed(check, more, counted_at_us).await?,
        }
        Ok(())
    }

    /// Deletes the bucket, which makes it full.
    async fn forget(&self, key: BucketKey<'_>, rule: &Rule) -> Result<(), Lost> {
        match self {
            Self::Memory(store) => store.forget(key, rule),
            Self::Redis(store) => {
                store.forget(Check { key, rule, cost: 0 }).await?;
            }
        }
        Ok(())
    }
}
