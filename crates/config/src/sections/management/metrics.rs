//! How requests are counted, as typed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};

/// How requests that match a route are counted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRequestSeries {
    /// Whether they are. Default true.
    pub(crate) enabled: Option<bool>,
    /// What the series' name begins with, before `requests`. Default `spring.cloud.gateway`, which makes `spring_cloud_gateway_requests_seconds`.
    pub(crate) prefix: Option<Spanned<String>>,
    /// Labels of your own, by name. Default: none.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) tags: Option<NodeRef>,
    /// The pattern that matched.
    pub(crate) path_tags: RawPathTags,
}

/// The pattern that matched.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawPathTags {
    /// Whether the pattern of `Path` that matched is a label. Default false: each pattern is a series more.
    pub(crate) enabled: Option<bool>,
}

/// What is said of everything that is counted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCommonTags {
    /// Labels of every series on `/metrics`, by name. Default: none.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) tags: Option<NodeRef>,
}
