//! CORS settings as typed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Seconds;

/// Who may ask from other origins, by path.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawGlobalCors {
    /// By path pattern: `"[/api/**]"`. The first that matches holds.
    #[schemars(with = "BTreeMap<String, RawCors>")]
    pub(crate) cors_configurations: Option<NodeRef>,
    /// Whether preflights that no route takes are answered. Default false.
    pub(crate) add_to_simple_url_handler_mapping: Option<bool>,
    /// Whether `metadata.cors` of routes counts, as in Spring; what stands here does either way. Default true.
    pub(crate) enabled: Option<Spanned<bool>>,
}

/// Who may ask from other origins.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCors {
    /// Origins such as `https://example.com`, or `*`. Default: none.
    pub(crate) allowed_origins: Option<Vec<Spanned<String>>>,
    /// Origins with `*` in them and lists of ports: `https://*.example.com:[443,8443]`. Default: none.
    pub(crate) allowed_origin_patterns: Option<Vec<Spanned<String>>>,
    /// Methods, or `*`. Default GET and HEAD.
    pub(crate) allowed_methods: Option<Vec<Spanned<String>>>,
    /// Headers that requests may have, or `*`. Default: none but those that need no leave.
    pub(crate) allowed_headers: Option<Vec<Spanned<String>>>,
    /// Headers of answers that scripts may read. Default: none but those that need no leave.
    pub(crate) exposed_headers: Option<Vec<Spanned<String>>>,
    /// Whether cookies and `Authorization` may go along. Default false.
    pub(crate) allow_credentials: Option<bool>,
    /// Whether public sites may ask those of a private network. Default false.
    pub(crate) allow_private_network: Option<bool>,
    /// How long browsers may remember the answer to a preflight: seconds, or a time such as `30m`. Default: as long as they do by themselves, 5 seconds for the most part.
    pub(crate) max_age: Option<Seconds>,
}
