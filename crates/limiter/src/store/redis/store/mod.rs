//! Store that decides in Redis, and by `on-store-failure` when it cannot.

mod corrections;
mod cross_slot;
mod in_turn;
mod plans;
mod quota;
mod read_all;
mod staged;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;

pub use self::plans::RedisPlans;
use super::client::{RedisClient, Request};
use super::command::{self, CallOptions, slot_of};
use super::gateways::Gateways;
use super::hash_slot::HashSlot;
use super::hot_keys::{CheckSet, Fingerprint, HotKeys, Join, LeaderGuard, LeaseLookup, LeaseTerms};
use super::stats::Operation;
use crate::rule::Rule;
use crate::store::fallback::Fallback;
use crate::store::memory::{Clock, MemoryStore};
use crate::store::{Check, Decision, OnStoreFailure, Store};
use crate::verdict::{RuleVerdict, Source, Verdict};

/// Store that decides in Redis; clones share everything.
#[derive(Clone)]
pub struct RedisStore {
    client: Arc<RedisClient>,
    hot_keys: Arc<HotKeys>,
    local: Arc<MemoryStore>,
    on_store_failure: OnStoreFailure,
    options: CallOptions,
    gateways: Gateways,
    denial_cache: bool,
    coalesce: bool,
    lease: Option<Duration>,
}

impl RedisStore {
    /// Creates a store that calls `client`, and `local` where `on_store_failure` says so. The stores of one client share
    /// cached denials, coalesced calls and leases.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, local: Arc<MemoryStore>, on_store_failure: OnStoreFailure) -> Self {
        let prefix = Arc::clone(client.key_prefix());
        let reply_delay = Arc::clone(&client.context().reply_delay);
        Self {
            hot_keys: HotKeys::of(&client),
            client,
            local,
            on_store_failure,
            options: CallOptions { prefix, reply_delay, ..CallOptions::default() },
            gateways: Gateways::default(),
            denial_cache: true,
            coalesce: true,
            lease: None,
        }
    }

    /// Sends hashes of key ids, for ids that are secrets (default: false).
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        self.options.hash_ids = hash_keys;
        self
    }

    /// Decides by `clock` instead of Redis' own time, for traces of another time. All gateways that share keys need equal
    /// clocks then.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.options.clock = Some(clock);
        self
    }

    /// Sets the number of gateways that share a limit. While Redis is unreachable, each admits its share in memory.
    #[must_use]
    pub fn gateways(mut self, gateways: impl Into<Gateways>) -> Self {
        self.gateways = gateways.into();
        self
    }

    /// Enables the denial cache (the default). A denial is cached for as long as it certainly holds, at most a second.
    /// Until then equal requests are denied without a call, unless tokens are returned to one of their keys: by this
    /// client, or by others that publish it on the channel `tollgate.returned`. `remaining` is that of the denial.
    #[must_use]
    pub fn denial_cache(mut self, denial_cache: bool) -> Self {
        self.denial_cache = denial_cache;
        self
    }

    /// Enables coalescing (the default): equal requests that arrive while one of them is being decided share one call.
    /// Each gets the verdict that it would have got alone, except for the reset time, which is that of all. Requests
    /// under a leaky bucket are not coalesced.
    #[must_use]
    pub fn coalesce(mut self, coalesce: bool) -> Self {
        self.coalesce = coalesce;
        self
    }

    /// Enables leases of at most `lease` and of at most [`MAX_LEASE`](Self::MAX_LEASE) (default: none): a call for a hot key
    /// takes further requests in advance. It takes as many as recently came in that time, at most 1,000 and at most a quarter
    /// of what remains divided by [`gateways`](Self::gateways).
    ///
    /// Leased requests count as taken, so no more are admitted than without leases. Unused ones are returned. Until then
    /// other gateways may deny that many requests too early. `remaining` is the number left in the lease, which is the
    /// least that is left. Leases apply to token buckets, GCRA and fixed windows, if all rules of a limiter are among
    /// them. They do not apply to costs that are settled later.
    #[must_use]
    pub fn lease(mut self, lease: Option<Duration>) -> Self {
        self.lease = lease.map(|lease| lease.min(Self::MAX_LEASE));
        self
    }

    /// Returns true if requests under `rule` can be leased.
    #[must_use]
    pub fn supports_lease(rule: &Rule) -> bool {
        rule.algorithm().spec().leasable
    }

    fn slot(&self, check: &Check<'_>) -> HashSlot {
        slot_of(check.key, check.rule.algorithm(), &self.options)
    }

    /// Terms under which the request may be leased; `None`: it may not.
    fn lease_terms(&self, checks: &[Check<'_>]) -> Option<LeaseTerms> {
        let duration_us = u64::try_from(self.lease?.as_micros()).ok()?;
        let can_lease = checks.iter().all(|check| Self::supports_lease(check.rule)) && command::can_coalesce(checks);
        can_lease.then(|| LeaseTerms { duration_us, gateways: self.gateways.get().get().into() })
    }

    /// Decides without a call, from a lease or a cached denial. The error tells whether the key is hot.
    fn decide_locally(
        &self,
        fingerprint: Fingerprint,
        terms: Option<LeaseTerms>,
        checks: &[Check<'_>],
        now_us: u64,
    ) -> Result<Verdict, bool> {
        let mut is_hot = false;
        if let Some(terms) = terms {
            match self.hot_keys.take_leased(fingerprint, terms, now_us) {
                LeaseLookup::Hit(answers) => {
                    let capacities = checks.iter().map(|check| check.rule.capacity());
                    if let Some(verdict) = Verdict::combine(answers, capacities, Source::Redis) {
                        return Ok(verdict);
                    }
                }
                LeaseLookup::Miss { is_hot: hot } => is_hot = hot,
            }
        }
        let denial = if self.denial_cache { self.hot_keys.cached_denial(fingerprint, checks, now_us) } else { None };
        denial.ok_or(is_hot)
    }

    /// Decides with a call of its own. `guard` lets equal requests follow meanwhile.
    fn decide_alone(
        &self,
        request: Request,
        guard: Option<LeaderGuard>,
        fingerprint: Fingerprint,
        checks: &[Check<'_>],
        fallback: Fallback,
        sent_us: u64,
    ) -> Decision {
        let call = command::decide(checks, &self.options);
        let capacities: Vec<u64> = checks.iter().map(|check| check.rule.capacity()).collect();
        let cache = self.denial_cache.then(|| {
            let costs: Vec<u64> = checks.iter().map(|check| check.cost).collect();
            let generations = self.hot_keys.generations(call.keys.iter());
            (Arc::clone(&self.hot_keys), self.options.clone(), costs, generations)
        });
        Decision::Pending(Box::pin(async move {
            let read = |reply: &_| {
                let answers: Vec<RuleVerdict> = command::answers(reply, capacities.len())?;
                Verdict::combine(answers, capacities.iter().copied(), Source::Redis)
            };
            let verdict = request.decide(call, read).await;
            drop(guard);
            let Ok(verdict) = verdict else { return fallback.decide() };
            if let Some((hot_keys, options, costs, generations)) = cache {
                let times = [sent_us, hot_keys.now_us(&options)];
                hot_keys.cache_denial(fingerprint, &verdict, &costs, generations, times);
            }
            verdict
        }))
    }

    fn decide_list(&self, checks: &[Check<'_>]) -> Decision {
        self.in_turn(checks, &[], self.decide_once(checks))
    }

    /// Decides. A reply may be late for the turn that it assigns.
    fn decide_once(&self, checks: &[Check<'_>]) -> Decision {
        let fallback = || Fallback::new(self.on_store_failure, &self.local, checks, self.gateways.get());
        let Some(first) = checks.first() else { return Decision::Ready(fallback().decide()) };
        if let Some(slots) = self.slots(checks) {
            return self.decide_cross_slot(checks, slots, fallback());
        }
        let fingerprint = self.hot_keys.fingerprint(checks, &self.options);
        let sent_us = self.hot_keys.now_us(&self.options);
        let terms = self.lease_terms(checks);
        let is_hot = match self.decide_locally(fingerprint, terms, checks, sent_us) {
            Ok(verdict) => return Decision::Ready(verdict),
            Err(is_hot) => is_hot,
        };
        let fallback = fallback();
        let Ok(request) = self.client.request(Operation::Decide, || self.slot(first)) else {
            return Decision::Ready(fallback.decide());
        };
        let joins = is_hot || self.coalesce && command::can_coalesce(checks);
        if !joins {
            return self.decide_alone(request, None, fingerprint, checks, fallback, sent_us);
        }
        let check_set = || CheckSet::new(fingerprint, checks, &self.options, self.denial_cache, terms);
        match self.hot_keys.join(fingerprint, request, is_hot, check_set) {
            Join::Leader(request, guard) => self.decide_alone(request, guard, fingerprint, checks, fallback, sent_us),
            Join::Follower(reply, deadline) => Decision::Pending(Box::pin(async move {
                match timeout_at(deadline, reply).await {
                    Ok(Ok(Ok(verdict))) => verdict,
                    // Late, failed, or dropped: the shared call has counted it.
                    _ => fallback.decide(),
                }
            })),
        }
    }
}

impl Store for RedisStore {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        match self.stage(enforced, observed) {
            Some(decision) => self.in_turn(enforced, observed, decision),
            None => self.decide_list(enforced).then_observed(self, observed, Self::decide_list),
        }
    }

    /// A correction that Redis does not receive in time is lost.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.settle_confirmed(check, more, counted_at_us));
        }
    }
}
