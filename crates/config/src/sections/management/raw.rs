//! Raw settings of Spring Boot's endpoints.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::de::spanned::Spanned;

/// Spring Boot's settings of all endpoints.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEndpoints {
    pub(crate) web: RawWeb,
    pub(crate) access: RawAccessDefault,
    pub(crate) enabled_by_default: Option<bool>,
}

/// Endpoints over HTTP.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawWeb {
    /// Default `/actuator`.
    pub(crate) base_path: Option<String>,
    /// Paths of endpoints below it, by name.
    pub(crate) path_mapping: BTreeMap<String, Spanned<String>>,
    pub(crate) exposure: RawExposure,
}

/// Exposed endpoints.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawExposure {
    pub(crate) include: Option<Spanned<Vec<String>>>,
    pub(crate) exclude: Vec<String>,
}

/// Default access to endpoints.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawAccessDefault {
    pub(crate) default: Option<RawAccess>,
    pub(crate) max_permitted: Option<RawAccess>,
}

/// Access to an endpoint, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawAccess {
    /// Disabled.
    None,
    /// Read access.
    ReadOnly,
    /// Read and write access.
    Unrestricted,
}

/// Settings of the supported endpoints.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEndpointSettings {
    pub(crate) health: RawEndpoint,
    pub(crate) gateway: RawEndpoint,
    pub(crate) prometheus: RawEndpoint,
}

/// Settings of one endpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEndpoint {
    pub(crate) enabled: Option<bool>,
    pub(crate) access: Option<RawAccess>,
    pub(crate) show_details: Option<String>,
    pub(crate) show_components: Option<String>,
    pub(crate) probes: RawProbes,
}

/// Enables `/actuator/health/liveness` and `/actuator/health/readiness`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawProbes {
    pub(crate) enabled: Option<bool>,
    pub(crate) add_additional_paths: Option<Spanned<bool>>,
}
