//! Spring Boot's endpoints as typed.

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
    /// Paths of endpoints behind it, by their names.
    pub(crate) path_mapping: BTreeMap<String, Spanned<String>>,
    pub(crate) exposure: RawExposure,
}

/// Which endpoints there are.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawExposure {
    pub(crate) include: Option<Spanned<Vec<String>>>,
    pub(crate) exclude: Vec<String>,
}

/// What may be done with endpoints that do not say it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawAccessDefault {
    pub(crate) default: Option<RawAccess>,
    pub(crate) max_permitted: Option<RawAccess>,
}

/// What may be done with an endpoint, from less to more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawAccess {
    /// It is not there.
    None,
    /// It shows.
    ReadOnly,
    /// It shows and acts.
    Unrestricted,
}

/// Settings of the endpoints that there are here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEndpointSettings {
    pub(crate) health: RawEndpoint,
    pub(crate) gateway: RawEndpoint,
    pub(crate) prometheus: RawEndpoint,
}

/// Settings of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEndpoint {
    pub(crate) enabled: Option<bool>,
    pub(crate) access: Option<RawAccess>,
    pub(crate) show_details: Option<String>,
    pub(crate) show_components: Option<String>,
    pub(crate) probes: RawProbes,
}

/// Whether `/actuator/health/liveness` and `readiness` are there.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawProbes {
    pub(crate) enabled: Option<bool>,
    pub(crate) add_additional_paths: Option<Spanned<bool>>,
}
