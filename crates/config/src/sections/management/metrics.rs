//! Raw settings of the request metrics.

#[cfg(test)]
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::de::defaults::Flag;
use crate::de::metadata::Metadata;
use crate::de::spanned::Spanned;

/// Metrics of requests that match a route.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRequestSeries {
    /// Enables the metrics.
    pub(crate) enabled: Flag<true>,
    /// Prefix of the metric's name, before `requests`. Default `spring.cloud.gateway`, which gives `spring_cloud_gateway_requests_seconds`.
    pub(crate) prefix: Option<Spanned<String>>,
    /// Additional labels by name. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    pub(crate) tags: Metadata,
    /// Label with the matched pattern.
    pub(crate) path_tags: RawPathTags,
}

/// Label with the matched pattern.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawPathTags {
    /// Adds a label with the matched pattern of `Path`. Default {}: each pattern adds a series.
    pub(crate) enabled: Option<Flag<false>>,
}

/// Labels of all metrics, and access to them.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCommonTags {
    /// Labels of all metrics on `/metrics`, by name. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    pub(crate) tags: Metadata,
    /// Serves `/metrics` without a token on every address, so that Prometheus can read it. Default false.
    pub(crate) open: Option<Spanned<bool>>,
}
