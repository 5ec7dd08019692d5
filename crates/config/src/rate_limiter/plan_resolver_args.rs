//! Arguments of a plan resolver as the file has them.

use serde::Deserialize;

use crate::de::given::{Given, Named};
use crate::de::spanned::Spanned;
use crate::de::units::Time;
#[cfg(test)]
use crate::spec::schema::arguments;

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
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
#[cfg_attr(test, schemars(transform = arguments))]
pub(super) struct PlanTableArgs {
    /// Plan of each key, in this file.
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub(super) table: Given<Named<Table>>,
    /// Name of a hash in Redis: plans by key.
    pub(super) redis_hash: Given<String>,
    /// Time for which a plan from Redis is cached, at most 1h. Default 5s.
    pub(super) cache: Given<Time>,
}

/// A value of the table. Keys with dots are nested nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "$tollgate::Shape", rename_all = "lowercase")]
pub(super) enum Table {
    Scalar(Spanned<String>),
    Seq(Vec<Self>),
    Map(Named<Self>),
}
