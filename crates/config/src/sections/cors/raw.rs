//! CORS settings as typed.

#[cfg(test)]
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::de::defaults::Flag;
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Seconds;

/// CORS policies by path.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawGlobalCors {
    /// Policies by path pattern: `"[/api/**]"`. The first match applies.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, RawCors>"))]
    pub(crate) cors_configurations: Option<NodeRef>,
    /// Answers preflight requests that match no route.
    pub(crate) add_to_simple_url_handler_mapping: Flag<false>,
    /// Enables `metadata.cors` of routes, as in Spring; the policies here always apply. Default true.
    pub(crate) enabled: Option<Spanned<bool>>,
    /// Keeps CORS fields of upstreams' responses behind those of the policy; browsers refuse a response with two origins. Default {}, so that the policy's replace them; true in a Spring file, as in Spring.
    pub(crate) keep_upstream_headers: Flag<false>,
}

/// CORS policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCors {
    /// Allowed origins such as `https://example.com`, or `*`. Default: none.
    pub(crate) allowed_origins: Option<Vec<Spanned<String>>>,
    /// Allowed origins with `*` and lists of ports: `https://*.example.com:[443,8443]`. Default: none.
    pub(crate) allowed_origin_patterns: Option<Vec<Spanned<String>>>,
    /// Allowed methods, or `*`. Default GET and HEAD.
    pub(crate) allowed_methods: Option<Vec<Spanned<String>>>,
    /// Allowed request headers, or `*`. Default: the CORS-safelisted ones.
    pub(crate) allowed_headers: Option<Vec<Spanned<String>>>,
    /// Response headers that scripts can read. Default: the CORS-safelisted ones.
    pub(crate) exposed_headers: Option<Vec<Spanned<String>>>,
    /// Allows cookies and `Authorization`.
    pub(crate) allow_credentials: Flag<false>,
    /// Allows requests from public sites to a private network.
    pub(crate) allow_private_network: Flag<false>,
    /// Time for which browsers cache the response to a preflight: seconds, or a time such as `30m`. Default: the browser's own, mostly 5 seconds.
    pub(crate) max_age: Option<Seconds>,
}
