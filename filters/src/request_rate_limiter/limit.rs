//! What a limiter is made of: rules, and sets of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::cost::Cost;
use super::enforcement::Enforcement;
use crate::key_resolver::KeyResolver;
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::rule::Rule;

/// One rule of a limiter.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Its name in problem bodies, in `RateLimit` and in `X-RateLimit-Would-Deny`.
    pub name: Arc<str>,
    /// Tells its buckets from those of other rules in the same store. Rules of equal scope and algorithm share them.
    pub scope: Arc<str>,
    /// How much may pass.
    pub rule: Rule,
    /// What requests are counted under; `None`: what the limiter counts under.
    pub key_resolver: Option<KeyResolver>,
    /// What a request takes.
    pub cost: Cost,
    /// Whether it denies.
    pub enforcement: Enforcement,
}

/// The rules of a limiter: at most [`MAX_CHECKS`](tollgate_limiter::store::MAX_CHECKS) a set, without any a set that
/// limits nothing.
#[derive(Clone, Debug, Default)]
pub struct RuleSets {
    /// For requests without a plan.
    pub default: Vec<Limit>,
    /// For requests with one.
    pub plans: Option<Plans>,
}

/// Sets of rules by name.
#[derive(Clone, Debug)]
pub struct Plans {
    /// Which one a request has.
    pub resolver: PlanResolver,
    /// The sets. A rule that has the same scope in two of them keeps what was spent when a client's plan changes.
    pub sets: Vec<(Arc<str>, Vec<Limit>)>,
    /// The one for requests whose plan is not known or not among them; `None`: [`RuleSets::default`].
    pub default: Option<Arc<str>>,
}

/// Which plan a request has.
#[derive(Clone)]
pub enum PlanResolver {
    /// The one that the request names, such as in a header field: set it where clients cannot.
    Request(KeyResolver),
    /// By the limiter's key id.
    Table(HashMap<String, String>),
    /// By the limiter's key id, asked for elsewhere.
    Source(Arc<dyn PlanSource>),
}

impl RuleSets {
    /// One set of one rule.
    #[must_use]
    pub fn single(limit: Limit) -> Self {
        Self { default: vec![limit], plans: None }
    }

    /// Every rule: those for requests without a plan, then those of the plans in their order. Its place in here is the
    /// number of a rule in [`Event::rule`](super::Event::rule).
    pub fn rules(&self) -> impl Iterator<Item = &Limit> {
        let plans = self.plans.iter().flat_map(|plans| &plans.sets).flat_map(|(_, limits)| limits);
        self.default.iter().chain(plans)
    }
}

impl std::fmt::Debug for PlanResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request(resolver) => f.debug_tuple("Request").field(resolver).finish(),
            Self::Table(table) => f.debug_tuple("Table").field(table).finish(),
            Self::Source(_) => f.write_str("Source"),
        }
    }
}
