//! Checked limiters.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{Cost, CostSource, Enforcement, OnLimit, Settings};
use tollgate_limiter::rule::{Rule, RuleShape};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_routing::Predicate;

use crate::rate_limiter::conditions::When;

/// One limiter of a route.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    /// Rules of requests without a plan.
    pub rules: Rules,
    /// Rules by plan.
    pub plans: Option<Plans>,
    /// Shared bucket name: limiters with the same name share their buckets, on any route.
    pub bucket: Option<String>,
    /// Key resolver, access lists, and settings of responses.
    pub settings: Settings,
    /// True if rate limit headers of upstreams are removed.
    pub replaces_upstream_headers: bool,
    /// Store of its buckets; `None`: Redis if configured.
    pub store: Option<StoreKind>,
    /// Decision while Redis is unreachable.
    pub on_store_failure: OnStoreFailure,
    /// Number of gateways that share the limit. While Redis is unreachable, each admits its share.
    pub gateways: GatewayNumber,
    /// Isolation of concurrent decisions in Redis.
    pub atomicity: Atomicity,
    /// Longest time for which a lease takes tokens in advance; `None`: no leases.
    pub lease: Option<Duration>,
}

/// Number of gateways that share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayNumber {
    /// A fixed number.
    Fixed(NonZeroU32),
    /// The gateways that reported to Redis recently.
    Auto,
}

/// Rules that decide a request.
#[derive(Clone, Debug)]
pub enum Rules {
    /// One unnamed rule.
    One(Box<Limit>),
    /// Rules with the names that the file gives them, decided together; empty: unlimited.
    Several(Vec<(Option<String>, Limit)>),
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Algorithm and numbers.
    pub rule: Rule,
    /// Key; `None`: the filter's.
    pub key_resolver: Option<KeyResolver>,
    /// Tokens per request.
    pub cost: Cost,
    /// Share of keys for which the rule is enforced.
    pub enforcement: Enforcement,
    /// Shared bucket name: rules with the same name share their buckets.
    pub bucket: Option<String>,
    /// Condition under which it applies; `None`: to every request.
    pub when: Option<Arc<When>>,
}

/// Named sets of rules.
#[derive(Clone, Debug)]
pub struct Plans {
    /// Rules by plan.
    pub sets: Vec<(String, Rules)>,
    /// Source of a request's plan.
    pub resolver: PlanResolver,
    /// Plan of keys without a plan, or with an unknown one; `None`: the filter's own rules.
    pub default: Option<String>,
}

/// Source of a request's plan.
#[derive(Clone, Debug)]
pub enum PlanResolver {
    /// The request itself.
    Request(KeyResolver),
    /// By key id.
    Table(HashMap<String, String>),
    /// By key id, in a hash in Redis.
    RedisHash {
        /// Name of the hash.
        key: String,
        /// Time for which a plan is cached.
        cache: Duration,
    },
}

/// Isolation of concurrent decisions in Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Atomicity {
    /// Each decision is one script.
    #[default]
    Script,
    /// Each decision holds a lock, for servers without scripts.
    Lock(LockRetry),
}

/// Retries of a decision that finds the lock taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRetry {
    /// Doubles each pause.
    pub exponential: bool,
    /// The first pause.
    pub base: Duration,
    /// The longest pause.
    pub max: Duration,
    /// Upper bound of the random time added to a pause.
    pub jitter: Duration,
    /// Attempts in total.
    pub tries: NonZeroU32,
}

/// Store of buckets.
#[word]
pub enum StoreKind {
    /// In this process.
    Memory,
    /// In Redis.
    Redis,
}

impl Limit {
    /// Returns the reason why every request is denied, if that is so.
    pub fn denies_all(&self) -> Option<String> {
        let (cost, most) = (self.cost.tokens, self.rule.capacity());
        match self.rule.shape() {
            _ if most == 0 => Some(format!("`{}: 0` denies every request", self.capacity_field())),
            _ if cost <= most => None,
            RuleShape::Bucket { .. } => {
                Some(format!("every request is denied: each takes {cost} tokens, the bucket holds {most}"))
            }
            _ => Some(format!("every request is denied: each takes {cost} tokens, the limit is {most}")),
        }
    }

    /// Returns the name of the setting that bounds the tokens of one request.
    pub fn capacity_field(&self) -> &'static str {
        match self.rule.shape() {
            RuleShape::Bucket { .. } => "burst-capacity",
            RuleShape::Pace { .. } => "max-wait",
            RuleShape::Window { .. } | RuleShape::Calendar { .. } => "limit",
            RuleShape::Total { .. } => "allowance",
        }
    }
}

impl RateLimiter {
    /// Returns all rules, including those of plans.
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        let plans = self.plans.iter().flat_map(|plans| &plans.sets).map(|(_, rules)| rules);
        std::iter::once(&self.rules).chain(plans).flat_map(Rules::limits)
    }

    /// Returns all key resolvers that the limiter uses.
    pub fn key_resolvers(&self) -> impl Iterator<Item = &KeyResolver> {
        let plan = self.plans.iter().filter_map(|plans| match &plans.resolver {
            PlanResolver::Request(resolver) => Some(resolver),
            _ => None,
        });
        let of_rules = self.limits().filter_map(|limit| limit.key_resolver.as_ref());
        std::iter::once(&self.settings.key_resolver).chain(of_rules).chain(plan)
    }

    /// Returns the plans among which the API key of a request chooses.
    pub(crate) fn plans_of_api_keys(&self) -> impl Iterator<Item = &str> {
        let reads_key =
            |plans: &&Plans| matches!(&plans.resolver, PlanResolver::Request(resolver) if resolver.reads_api_key());
        self.plans.iter().filter(reads_key).flat_map(|plans| &plans.sets).map(|(name, _)| name.as_str())
    }

    /// Puts key ids of access lists and of the table of plans into the form in which the key resolvers return them.
    pub(super) fn normalize_ids(&mut self) {
        let resolvers: Vec<_> = self.key_resolvers().cloned().collect();
        self.settings.exempt.add_normal_ids(resolvers.iter());
        self.settings.block.add_normal_ids(resolvers.iter());
        if let Some(Plans { resolver: PlanResolver::Table(table), .. }) = &mut self.plans {
            let normal = |id: &String| match self.settings.key_resolver.normal_id(id.as_bytes()) {
                Cow::Borrowed(_) => None,
                Cow::Owned(normal) => Some((id.clone(), String::from_utf8_lossy(&normal).into_owned())),
            };
            let renamed: Vec<_> = table.keys().filter_map(normal).collect();
            for (id, normal) in renamed {
                if let Some(plan) = table.remove(&id) {
                    table.insert(normal, plan);
                }
            }
        }
    }

    /// Returns the names of the URI template variables in keys of buckets.
    pub(crate) fn variables(&self) -> Vec<&str> {
        let of_rules = self.limits().filter_map(|limit| limit.key_resolver.as_ref());
        std::iter::once(&self.settings.key_resolver).chain(of_rules).flat_map(KeyResolver::variables).collect()
    }

    /// Returns the header fields that its rules read, besides those of keys.
    pub(crate) fn further_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let conditions = self.limits().filter_map(|limit| limit.when.as_ref());
        let of_costs = self.limits().filter_map(|limit| {
            if let CostSource::RequestHeader(name) = &limit.cost.source { Some(name) } else { None }
        });
        conditions.flat_map(|when| &when.predicates).flat_map(Predicate::headers).chain(of_costs)
    }

    /// Returns true if requests of `method` may be refused because they lack the key of `limit`.
    pub(crate) fn needs_key_under(&self, limit: &Limit, method: &Method) -> bool {
        self.settings.deny_empty_key
            && limit.enforcement.and(self.settings.enforcement).denies_any()
            && !limit.when.as_ref().is_some_and(|when| when.excludes_method(method))
    }

    /// Returns true if the limiter reads the request's context.
    pub fn needs_context(&self) -> bool {
        self.settings.exempt.has_networks()
            || self.settings.block.has_networks()
            || self.forwards()
            || self.key_resolvers().any(KeyResolver::needs_context)
            || self.limits().any(|limit| limit.when.is_some())
    }

    /// Returns true if denied requests are forwarded to another route.
    pub fn forwards(&self) -> bool {
        matches!(self.settings.on_limit, OnLimit::Forward(_))
    }
}

impl Rules {
    /// Returns each rule.
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        let (one, several) = match self {
            Self::One(limit) => (Some(&**limit), &[][..]),
            Self::Several(limits) => (None, limits.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|(_, limit)| limit))
    }
}
