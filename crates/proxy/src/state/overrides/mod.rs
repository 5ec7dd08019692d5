//! Temporary overrides of limits: changed numbers, unlimited, or blocked, for one key or every key of a rule.
//!
//! With Redis, overrides are held there and every gateway reads them twice a second. An unreachable Redis changes
//! nothing: known overrides stay until they end. Without Redis they belong to the process.

mod change;
mod override_text;
mod store;
mod table;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tollgate_config::Config;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::Store;
use tollgate_limiter::store::redis::{OverrideTable, RedisClient, SharedOverride, StoreError};

pub use self::change::{ChangeError, RuleChange, check_names};
pub use self::override_text::{Override, OverrideEffect, OverrideNames, OverrideTarget};
use self::store::OverriddenStore;
pub use self::table::EffectiveRule;
use self::table::{ConfiguredRule, EffectiveOverrides, configured_rules, named_id};

/// Overrides of this process.
#[derive(Debug, Default)]
pub struct Overrides {
    has_any: AtomicBool,
    table: ArcSwap<EffectiveOverrides>,
    source: Mutex<TableSource>,
    /// Reader of the overrides in Redis. One call at a time, so that an older reply does not replace a newer one.
    shared: tokio::sync::Mutex<OverrideTable>,
}

/// Overrides and rules from which the table is made.
#[derive(Debug, Default)]
struct TableSource {
    overrides: Vec<Override>,
    rules: Vec<ConfiguredRule>,
    hashes_ids: bool,
}

/// Reason why an override was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] StoreError),
    /// Redis is configured, and no worker has a client yet.
    #[error("no connection to redis")]
    NoClient,
    /// There are too many overrides.
    #[error("at most {} overrides are possible", OverrideTable::CAPACITY)]
    TooMany,
}

impl Overrides {
    /// Applies the overrides to the rules of `config`.
    pub(super) fn configure(&self, config: &Config) {
        let rules = configured_rules(config);
        let mut source = self.source.lock();
        source.rules = rules;
        source.hashes_ids = config.redis.as_ref().is_some_and(|redis| redis.limiters.hash_keys.get());
        self.publish(&source);
    }

    /// Returns `store` under the overrides.
    pub(super) fn over(self: &Arc<Self>, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(OverriddenStore { store, overrides: Arc::clone(self) })
    }

    /// Returns the overrides in order of their targets, without those that have ended, and true for those that apply to
    /// a configured rule.
    pub fn all(&self) -> Vec<(Override, bool)> {
        let now = Instant::now();
        let source = self.source.lock();
        let lasting = source.overrides.iter().filter(|it| it.until > now);
        let mut all: Vec<_> = lasting.map(|it| (it.clone(), it.applies_to(&source.rules))).collect();
        all.sort_by(|(a, _), (b, _)| a.target.cmp(&b.target));
        all
    }

    /// Returns the overrides of these names, whether the configuration still has their rules or not.
    pub fn find(&self, route: &str, rule: Option<&str>, plan: Option<&str>, key: Option<&[u8]>) -> Vec<Override> {
        let key = key.map(|key| self.named_id(key));
        let has_names = |(it, _): &(Override, bool)| {
            it.names.route == route
                && it.target.key == key
                && rule.is_none_or(|rule| it.names.rule == rule)
                && plan.is_none_or(|plan| it.target.plan.as_deref().unwrap_or_default() == plan)
        };
        self.all().into_iter().filter(has_names).map(|(it, _)| it).collect()
    }

    /// Returns the rule in effect for `key` in place of `rule`, and the time that it lasts.
    pub fn effective_rule(&self, key: BucketKey<'_>, rule: &Rule) -> Option<(EffectiveRule, Duration)> {
        self.table.load().effective_rule(key, rule).map(|(effective, left)| (effective.clone(), left))
    }

    /// Returns `id` as a [`OverrideTarget`] names it: the id, or its hash (`redis.hash-keys`).
    pub fn named_id(&self, id: &[u8]) -> Box<[u8]> {
        named_id(id, self.source.lock().hashes_ids).into()
    }

    /// Returns true if another plan has an equal rule with the same buckets: an override of every key would concern
    /// both.
    pub fn is_ambiguous(&self, target: &OverrideTarget, rule: &Rule) -> bool {
        let is_other =
            |other: &ConfiguredRule| other.scope == target.scope && other.plan != target.plan && other.rule == *rule;
        target.key.is_none() && self.source.lock().rules.iter().any(is_other)
    }

    /// Reads the overrides in Redis, if they have changed.
    pub(super) async fn follow(&self, client: &RedisClient) -> Result<(), StoreError> {
        let mut shared = self.shared.lock().await;
        if let Some(overrides) = shared.read(client).await? {
            self.replace(&overrides);
        }
        Ok(())
    }

    #[inline]
    fn has_any(&self) -> bool {
        self.has_any.load(Acquire)
    }

    fn table(&self) -> Guard<Arc<EffectiveOverrides>> {
        self.table.load()
    }

    /// Sets or replaces one override of this process.
    pub(super) fn set(&self, new: Override) -> Result<(), OverrideError> {
        let now = Instant::now();
        self.change(|overrides| {
            let others = overrides.iter().filter(|it| it.until > now && it.target != new.target).count();
            if others >= OverrideTable::CAPACITY as usize {
                return Err(OverrideError::TooMany);
            }
            overrides.retain(|it| it.target != new.target);
            log_start(&new);
            overrides.push(new);
            Ok(())
        })
    }

    /// Removes one override of this process. Returns false if there is none.
    pub(super) fn remove(&self, target: &OverrideTarget) -> bool {
        let now = Instant::now();
        self.change(|overrides| {
            let ended = overrides.iter().find(|it| it.target == *target && it.until > now);
            ended.into_iter().for_each(log_end);
            let is_set = ended.is_some();
            overrides.retain(|it| it.target != *target);
            is_set
        })
    }

    /// Replaces all overrides by those in Redis, and logs the difference.
    fn replace(&self, shared: &[SharedOverride]) {
        let now = Instant::now();
        let new: Vec<_> = shared.iter().filter_map(|it| Override::of_shared(it, now)).collect();
        if new.is_empty() && !self.has_any() {
            return;
        }
        self.change(|overrides| {
            for it in overrides.iter().filter(|it| new.iter().all(|other| other.target != it.target)) {
                log_end(it);
            }
            for it in &new {
                match overrides.iter().find(|other| other.target == it.target) {
                    Some(before) if !before.differs(it) => {}
                    _ => log_start(it),
                }
            }
            *overrides = new;
        });
    }

    /// Drops the overrides that have ended.
    pub(super) fn expire(&self) {
        let now = Instant::now();
        if !self.has_any() || self.source.lock().overrides.iter().all(|it| it.until > now) {
            return;
        }
        self.change(|overrides| {
            overrides.iter().filter(|it| it.until <= now).for_each(log_end);
            overrides.retain(|it| it.until > now);
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Override>) -> T) -> T {
        let mut source = self.source.lock();
        let outcome = change(&mut source.overrides);
        self.publish(&source);
        outcome
    }

    fn publish(&self, source: &TableSource) {
        let table = EffectiveOverrides::new(source.overrides.iter(), &source.rules, source.hashes_ids);
        let has_any = !source.overrides.is_empty();
        self.table.store(Arc::new(table));
        self.has_any.store(has_any, Release);
    }
}

/// Logs an override that begins. The key is not shown: it may be personal data.
fn log_start(it: &Override) {
    let left = it.until.saturating_duration_since(Instant::now());
    let expires_in = Duration::from_secs_f64(left.as_secs_f64().ceil());
    let (names, effect) = (&it.names, &it.effect);
    let scope = if it.target.key.is_some() { "key" } else { "rule" };
    let (route, rule, caller) = (&*names.route, &*names.rule, &*names.by);
    tracing::info!(route, rule, scope, %effect, caller, ?expires_in, "override in effect");
}

/// Logs an override that has ended or was removed.
fn log_end(it: &Override) {
    let (names, effect) = (&it.names, &it.effect);
    let scope = if it.target.key.is_some() { "key" } else { "rule" };
    let (route, rule, caller) = (&*names.route, &*names.rule, &*names.by);
    tracing::info!(route, rule, scope, %effect, caller, "override ended");
}

#[cfg(test)]
mod tests;
