//! Arguments of `RequestRateLimiter` about plans, as the file has them.

use serde::Deserialize;

use crate::de::{Given, Metadata, Spanned, Time};
use crate::rate_limiter::args::{ListedArgs, RuleArgs};
#[cfg(test)]
use crate::spec::arguments;

/// Rules of one plan.
#[section(Clone)]
#[cfg_attr(test, schemars(transform = arguments))]
pub(crate) struct PlanRuleArgs {
    /// The rule, whose arguments stand in the same map.
    #[serde(rename = "$tollgate::SameMap")]
    #[cfg_attr(test, schemars(flatten))]
    pub(super) rule: RuleArgs,
    /// Several rules instead of one. Default: none.
    pub(super) limits: Given<Vec<Given<ListedArgs>>>,
    /// Name of a bucket that all limiters with this name share. Default: none.
    pub(super) bucket: Given<String>,
}

/// One plan.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "$tollgate::Shape", rename_all = "lowercase")]
#[cfg_attr(test, schemars(rename = "Plan", untagged))]
pub(super) enum PlanArgs {
    /// `unlimited`.
    Scalar(Spanned<String>),
    /// Rules.
    Map(Box<PlanRuleArgs>),
}

/// Source of a request's plan.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "$tollgate::Shape", rename_all = "lowercase")]
#[cfg_attr(test, schemars(rename = "PlanResolver", untagged))]
pub(super) enum PlanResolverArgs {
    /// A key resolver.
    Scalar(Spanned<String>),
    /// A list of one key resolver.
    Seq(Vec<Spanned<String>>),
    /// A table or a hash in Redis.
    Map(PlanTableArgs),
}

/// Plans by key.
#[section(Clone)]
#[cfg_attr(test, schemars(transform = arguments))]
pub(super) struct PlanTableArgs {
    /// Plan of each key, in this file.
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub(super) table: Given<Metadata>,
    /// Name of a hash in Redis: plans by key.
    pub(super) redis_hash: Given<String>,
    /// Time for which a plan from Redis is cached, at most 1h. Default 5s.
    pub(super) cache: Given<Time>,
}
