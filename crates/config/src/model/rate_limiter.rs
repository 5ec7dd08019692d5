//! Limiters, checked.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{Cost, Enforcement, OnLimit, Settings};
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::OnStoreFailure;

/// One limiter of a route.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    /// How much, for requests without a plan.
    pub rules: Rules,
    /// By plan.
    pub plans: Option<Plans>,
    /// Shares its buckets with every limiter of the same `bucket`, on whatever route.
    pub bucket: Option<String>,
    /// Of whom, and what the client is told.
    pub settings: Settings,
    /// Where its buckets are kept; `None`: in Redis when there is one.
    pub store: Option<StoreKind>,
    /// What happens when Redis cannot be asked.
    pub on_store_failure: OnStoreFailure,
    /// Gateways that share the limit; each admits its part while Redis cannot be asked.
    pub gateways: GatewayNumber,
    /// How decisions in Redis are kept apart.
    pub atomicity: Atomicity,
    /// For how long requests may be paid for in advance; `None`: not at all.
    pub lease: Option<Duration>,
}

/// How many gateways share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayNumber {
    /// So many.
    Fixed(NonZeroU32),
    /// As many as say in Redis that they live.
    Auto,
}

/// The rules that a request is decided by.
#[derive(Clone, Debug)]
pub enum Rules {
    /// One, without a name of its own.
    One(Box<Limit>),
    /// Several by name, all or none; without any nothing is limited.
    Several(Vec<(String, Limit)>),
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Limit {
    /// How much.
    pub rule: Rule,
    /// Of whom; `None`: as the filter says.
    pub key_resolver: Option<KeyResolver>,
    /// What a request takes.
    pub cost: Cost,
    /// Whether it denies.
    pub enforcement: Enforcement,
    /// Shares its bucket with every rule of the same `bucket`.
    pub bucket: Option<String>,
}

/// Named sets of rules.
#[derive(Clone, Debug)]
pub struct Plans {
    /// The sets.
    pub sets: Vec<(String, Rules)>,
    /// Who has which.
    pub resolver: PlanResolver,
    /// For the rest; `None`: the filter's own rules.
    pub default: Option<String>,
}

/// Who has which plan.
#[derive(Clone, Debug)]
pub enum PlanResolver {
    /// The request says so.
    Request(KeyResolver),
    /// By key id.
    Table(HashMap<String, String>),
    /// By key id, in a hash in Redis.
    RedisHash {
        /// Its name.
        key: String,
        /// How long a plan is remembered.
        cache: Duration,
    },
}

/// How decisions in Redis are kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Atomicity {
    /// Each is one script.
    #[default]
    Script,
    /// Each holds a lock, for servers without scripts.
    Lock(LockRetry),
}

/// What a decision does that finds the lock taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRetry {
    /// Whether each pause is twice as long as the one before it.
    pub exponential: bool,
    /// The first pause.
    pub base: Duration,
    /// The longest pause.
    pub max: Duration,
    /// As much may be added to a pause, at random.
    pub jitter: Duration,
    /// Attempts in all.
    pub tries: NonZeroU32,
}

/// Where buckets are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In this process.
    Memory,
    /// In Redis.
    Redis,
}

impl RateLimiter {
    /// Every rule, those of plans included.
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        let plans = self.plans.iter().flat_map(|plans| &plans.sets).map(|(_, rules)| rules);
        std::iter::once(&self.rules).chain(plans).flat_map(Rules::limits)
    }

    /// Everything that it reads of requests to count them.
    pub fn key_resolvers(&self) -> impl Iterator<Item = &KeyResolver> {
        let plan = self.plans.iter().filter_map(|plans| match &plans.resolver {
            PlanResolver::Request(resolver) => Some(resolver),
            _ => None,
        });
        let own = self.limits().filter_map(|limit| limit.key_resolver.as_ref());
        std::iter::once(&self.settings.key_resolver).chain(own).chain(plan)
    }

    /// Whether it reads the request's context.
    #[must_use]
    pub fn needs_context(&self) -> bool {
        self.settings.exempt.has_networks()
            || self.settings.block.has_networks()
            || self.forwards()
            || self.key_resolvers().any(KeyResolver::needs_context)
    }

    /// Whether denied requests go elsewhere.
    #[must_use]
    pub fn forwards(&self) -> bool {
        matches!(self.settings.on_limit, OnLimit::Forward(_))
    }
}

impl Rules {
    /// Each rule.
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        let (one, several) = match self {
            Self::One(limit) => (Some(&**limit), &[][..]),
            Self::Several(limits) => (None, limits.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|(_, limit)| limit))
    }
}
