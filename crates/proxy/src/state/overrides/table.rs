//! Overrides by scope and key, for the decisions of limiters.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_config::{Config, Route};
use tollgate_limiter::key::{BucketKey, redis_text};
use tollgate_limiter::rule::Rule;

use crate::state::overrides::override_text::{Override, OverrideEffect};

/// Overrides of the running configuration. A change builds another one.
#[derive(Debug, Default)]
pub(super) struct EffectiveOverrides {
    scopes: HashMap<String, ScopeOverrides>,
    /// True if keys are hashes.
    hashes_ids: bool,
}

/// Overrides of the buckets of one scope.
#[derive(Debug, Default)]
struct ScopeOverrides {
    keys: HashMap<Box<[u8]>, Vec<Applied>>,
    /// Overrides of every key.
    all: Vec<Applied>,
}

/// Override of one configured rule.
#[derive(Debug)]
struct Applied {
    configured: Rule,
    effective: EffectiveRule,
    until: Instant,
}

/// Rule that applies while an override is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectiveRule {
    /// Another rule of the same algorithm.
    Rule(Arc<Rule>),
    /// Allows every request.
    Unlimited,
    /// Denies every request.
    Blocked,
}

impl EffectiveRule {
    /// Returns its name: `numbers`, `unlimited` or `block`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Rule(_) => "numbers",
            Self::Unlimited => "unlimited",
            Self::Blocked => "block",
        }
    }

    /// Returns the rule with other numbers, if there is one.
    pub fn rule(&self) -> Option<&Rule> {
        match self {
            Self::Rule(rule) => Some(rule),
            Self::Unlimited | Self::Blocked => None,
        }
    }
}

/// Rule of the configuration that overrides may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfiguredRule {
    pub(super) scope: String,
    pub(super) plan: Option<String>,
    pub(super) rule: Rule,
}

/// Returns every rule of `config`.
pub(super) fn configured_rules(config: &Config) -> Vec<ConfiguredRule> {
    let limiters = config.routes.iter().flat_map(Route::rate_limiters);
    let rules = limiters.flat_map(|limiter| {
        let rules = limiter.all().into_iter().map(|named_limit| ConfiguredRule {
            scope: named_limit.scope.to_string(),
            plan: named_limit.plan.map(str::to_owned),
            rule: named_limit.limit.rule.clone(),
        });
        rules.collect::<Vec<_>>()
    });
    rules.collect()
}

/// Returns `id` as overrides name it: the id, or its hash.
pub(super) fn named_id(id: &[u8], hashes: bool) -> Cow<'_, [u8]> {
    if !hashes {
        return Cow::Borrowed(id);
    }
    let mut hash = Vec::with_capacity(redis_text::MAX_READABLE);
    redis_text::write_id(id, true, &mut hash);
    Cow::Owned(hash)
}

impl Override {
    /// Returns the rule in place of `rule`, if the override applies to it.
    fn effective_rule(&self, rule: &ConfiguredRule) -> Option<EffectiveRule> {
        if rule.scope != self.target.scope || rule.plan != self.target.plan {
            return None;
        }
        match &self.effect {
            OverrideEffect::Rule(change) => {
                change.apply(&rule.rule).ok().map(|rule| EffectiveRule::Rule(Arc::new(rule)))
            }
            OverrideEffect::Unlimited => Some(EffectiveRule::Unlimited),
            OverrideEffect::Block => Some(EffectiveRule::Blocked),
        }
    }

    /// Returns true if it applies to one of `rules`.
    pub(super) fn applies_to(&self, rules: &[ConfiguredRule]) -> bool {
        rules.iter().any(|rule| self.effective_rule(rule).is_some())
    }
}

impl EffectiveOverrides {
    /// Applies `overrides` to the rules of the configuration. An override of an unknown rule has no effect.
    pub(super) fn new<'o>(
        overrides: impl Iterator<Item = &'o Override>,
        rules: &[ConfiguredRule],
        hashes_ids: bool,
    ) -> Self {
        let mut table = Self { hashes_ids, ..Self::default() };
        for it in overrides {
            let mut applied: Vec<Applied> = Vec::new();
            for configured in rules {
                let is_known = applied.iter().any(|other| other.configured == configured.rule);
                if let Some(effective) = it.effective_rule(configured).filter(|_| !is_known) {
                    applied.push(Applied { configured: configured.rule.clone(), effective, until: it.until });
                }
            }
            if applied.is_empty() {
                continue;
            }
            let scope = table.scopes.entry(it.target.scope.clone()).or_default();
            match &it.target.key {
                Some(key) => scope.keys.entry(key.clone()).or_default().extend(applied),
                None => scope.all.extend(applied),
            }
        }
        table
    }

    /// Returns the effective rule of `key` in place of `rule`, and the time that it lasts. An override of the key precedes one of
    /// every key.
    pub(super) fn effective_rule(&self, key: BucketKey<'_>, rule: &Rule) -> Option<(&EffectiveRule, Duration)> {
        let scope = self.scopes.get(key.scope)?;
        let of_key = || scope.keys.get(&*named_id(key.id, self.hashes_ids)).map(Vec::as_slice);
        let of_key = if scope.keys.is_empty() { None } else { of_key() };
        let applied = [of_key.unwrap_or_default(), scope.all.as_slice()];
        let mut applied = applied.into_iter().flatten().filter(|applied| applied.configured == *rule).peekable();
        applied.peek()?;
        let now = Instant::now();
        applied.find_map(|applied| {
            let left = applied.until.saturating_duration_since(now);
            (!left.is_zero()).then_some((&applied.effective, left))
        })
    }
}
