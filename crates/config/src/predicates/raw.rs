//! Settings of predicates as typed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::Spanned;
use crate::sections::scalars::Scalar;

/// Settings of predicates wherever they stand.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawPredicateSettings {
    /// The predicate `Host`.
    pub(crate) host: RawHostPredicate,
}

/// The predicate `Host`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHostPredicate {
    /// Whether patterns see the port of `Host`: `**.a.org` does not match `www.a.org:8080` then, `**.a.org:*` does. Default true.
    pub(crate) include_port: Option<bool>,
}

/// Versions of an API: what the predicate `Version` compares with.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawApiVersion {
    /// Where requests name the version they want; the first place that has something counts.
    pub(crate) r#use: RawVersionUse,
    /// The version of a request that names none. Default: none, and every `Version` takes it.
    #[serde(alias = "default-version")]
    #[schemars(with = "Option<Scalar>")]
    pub(crate) default: Option<Spanned<String>>,
    /// Whether a request that names no version is taken by no `Version`. Default false.
    pub(crate) required: Option<bool>,
    /// The versions that there are; a request for another one is taken by no `Version` but those that name it. Default: any.
    #[schemars(with = "Option<Vec<Scalar>>")]
    pub(crate) supported: Option<Vec<Spanned<String>>>,
    /// Whether a `Version` takes the version that it names though it is not in `supported`. Default true.
    pub(crate) detect_supported: Option<bool>,
}

/// Where requests name the version they want.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawVersionUse {
    /// A header's name. Default: none.
    pub(crate) header: Option<Spanned<String>>,
    /// A query parameter's name. Default: none.
    pub(crate) query_parameter: Option<String>,
    /// A segment of the path, counted from 0 behind `base-path`. Default: none.
    pub(crate) path_segment: Option<usize>,
    /// A parameter's name by media type, `*` for any, in `Accept` and `Content-Type`; quote a type with dots `"[…]"`. Default: none.
    pub(crate) media_type_parameter: BTreeMap<String, String>,
}
