//! Reads and writes of single buckets, for the limits API.

use std::sync::Arc;
use std::time::Duration;

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
#[reply]
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

/// Rule in effect for a key: as configured, or under a temporary override.
pub(in crate::admin) struct KeyRule<'r> {
    key: BucketKey<'r>,
    configured: &'r Rule,
    pub(in crate::admin) overridden: Option<(EffectiveRule, Duration)>,
}

impl<'r> KeyRule<'r> {
    pub(in crate::admin) fn of(key: BucketKey<'r>, configured: &'r Rule, state: &AdminState) -> Self {
        Self { key, configured, overridden: state.stores.overrides.effective_rule(key, configured) }
    }

    /// Returns the rule with its numbers in effect.
    pub(in crate::admin) fn in_effect(&self) -> &Rule {
        self.overridden.as_ref().and_then(|(effective, _)| effective.rule()).unwrap_or(self.configured)
    }

    pub(super) fn check(&self, cost: u64) -> Check<'_> {
        Check { key: self.key, rule: self.in_effect(), cost }
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
        Ok(Self::Redis(store.hash_keys(redis.limiters.hash_keys.get()).denial_cache(false)))
    }

    /// Returns the name of the store in responses.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
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
                    let read = self.query(Check { key, rule, cost: 0 }).await;
                    let reading = read.map(|(remaining, reset_after, _)| Reading::new(remaining, reset_after));
                    readings.push(reading.map_err(|_| Lost::unsent()));
                }
                readings
            }
        }
    }

    /// Returns the state of a key for a request of `cost` tokens. Consumes nothing.
    pub(in crate::admin) async fn probe(&self, rule: &KeyRule<'_>, cost: u64) -> Result<Probe, LimitsError> {
        let check = rule.check(cost);
        let (remaining, reset_after, _) = self.query(check).await?;
        let (is_exceeded, retry_after) = match (&rule.overridden, self) {
            (Some((EffectiveRule::Unlimited, _)), _) => (false, None),
            (Some((EffectiveRule::Blocked, left)), _) => (true, Some(*left)),
            (_, Self::Memory(store)) => match store.probe(check).outcome {
                Outcome::Denied { retry_after } => (true, Some(retry_after)),
                outcome => (outcome != Outcome::Allowed, None),
            },
            (_, Self::Redis(_)) => (cost > remaining, time_until(check, remaining, reset_after)),
        };
        Ok(Probe { remaining, reset_after, is_exceeded, retry_after })
    }

    /// Returns the remaining tokens, the time until the bucket is full, and the time of the reading in microseconds.
    async fn query(&self, check: Check<'_>) -> Result<(u64, Duration, u64), LimitsError> {
        let checks = [Check { cost: 0, ..check }];
        let decision = match self {
            Self::Memory(store) => store.decide(&checks, &[]),
            Self::Redis(store) => store.decide(&checks, &[]),
        };
        let verdict = decision.get().await;
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
    pub(super) async fn change(&self, check: Check<'_>, change: Change, ends_leases: bool) -> Result<(), Lost> {
        match self {
            Self::Redis(store) if ends_leases => store.change_leased(check, self.apply(check, change)).await,
            _ => self.apply(check, change).await,
        }
    }

    async fn apply(&self, check: Check<'_>, change: Change) -> Result<(), Lost> {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match (self, check.rule, change) {
            (Self::Memory(store), rule, Change::Reset) => store.forget(check.key, rule),
            (Self::Redis(store), _, Change::Reset) => {
                store.forget(check).await?;
            }
            (Self::Memory(store), Rule::Quota(quota), Change::Grant(more)) => {
                store.grant_quota(check.key, quota, more);
            }
            (Self::Memory(store), Rule::Quota(quota), Change::Set(remaining)) => {
                store.set_quota(check.key, quota, remaining);
            }
            (Self::Redis(store), Rule::Quota(quota), Change::Grant(more)) => {
                store.grant_quota(check.key, quota, more).await?;
            }
            (Self::Redis(store), Rule::Quota(quota), Change::Set(remaining)) => {
                store.set_quota(check.key, quota, remaining).await?;
            }
            (_, _, Change::Grant(more)) => self.settle(check, |_| more.saturating_neg()).await?,
            // As close as the rule allows: at most its capacity, and at most what the window still counts.
            (_, _, Change::Set(remaining)) => self.settle(check, |left| signed(left) - signed(remaining)).await?,
        }
        Ok(())
    }

    /// Charges the tokens that `more` returns for the remaining ones; refunds them if they are negative.
    async fn settle(&self, check: Check<'_>, more: impl FnOnce(u64) -> i64) -> Result<(), Lost> {
        let (remaining, _, now_us) = self.query(check).await.map_err(|_| Lost::unsent())?;
        let more = more(remaining);
        // To a bucket, all of it is added: no part of a change has been refilled since.
        let is_bucket = matches!(check.rule, Rule::TokenBucket(_) | Rule::Gcra(_));
        let counted_at_us = if is_bucket { MAX_SAFE_INTEGER } else { now_us };
        match self {
            Self::Memory(store) => store.settle(check, more, counted_at_us),
            Self::Redis(store) => store.settle_confirmed(check, more, counted_at_us).await?,
        }
        Ok(())
    }
}

/// Returns the time until a bucket in Redis with `remaining` tokens admits the request of `check`; `None` if it does, or never
/// does.
///
/// The script tells the time only if it denies the request, which would count. A bucket refills steadily or in steps; the
/// tokens of other rules are back when all are.
fn time_until(Check { rule, cost, .. }: Check<'_>, remaining: u64, reset_after: Duration) -> Option<Duration> {
    let can_pass = cost > remaining && cost <= rule.capacity();
    can_pass.then(|| match rule.shape() {
        RuleShape::Bucket { rate, period, burst } => {
            let rate = rate.max(1);
            let spare_us = if rule.refills_in_steps() {
                let steps = (burst - remaining).div_ceil(rate) - (cost - remaining).div_ceil(rate);
                u128::from(steps) * period.as_micros()
            } else {
                u128::from(burst - cost) * period.as_micros() / u128::from(rate)
            };
            reset_after.saturating_sub(Duration::from_micros(u64::try_from(spare_us).unwrap_or(u64::MAX)))
        }
        _ => reset_after,
    })
}
