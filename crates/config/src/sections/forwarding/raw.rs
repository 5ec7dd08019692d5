//! Raw settings of forwarding headers.

use serde::Deserialize;

use crate::de::spanned::Spanned;
use crate::sections::forwarding::model::Underscores;

/// `X-Forwarded-*` fields, added only if the peer is one of `trusted-proxies`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawXForwarded {
    /// Enables all of them. Default true. Fields that are disabled are forwarded unchanged.
    pub(crate) enabled: Option<bool>,
    /// Spring's order of the header filter.
    #[cfg_attr(test, schemars(skip))]
    pub(crate) order: Option<Spanned<i64>>,
    /// Enables `X-Forwarded-For`, the peer's address. Default true.
    pub(crate) for_enabled: Option<bool>,
    /// Enables `X-Forwarded-Host`, the requested host. Default true.
    pub(crate) host_enabled: Option<bool>,
    /// Enables `X-Forwarded-Port`, the requested port. Default true.
    pub(crate) port_enabled: Option<bool>,
    /// Enables `X-Forwarded-Proto`, `http` or `https`. Default true.
    pub(crate) proto_enabled: Option<bool>,
    /// Enables `X-Forwarded-Prefix`, the part of the path that filters removed. Default true.
    pub(crate) prefix_enabled: Option<bool>,
    /// Appends to the received field instead of replacing it. Default true.
    pub(crate) for_append: Option<bool>,
    /// Appends to the received field instead of replacing it. Default true.
    pub(crate) host_append: Option<bool>,
    /// Appends to the received field instead of replacing it. Default true.
    pub(crate) port_append: Option<bool>,
    /// Appends to the received field instead of replacing it. Default true.
    pub(crate) proto_append: Option<bool>,
    /// Appends to the received field instead of replacing it. Default true.
    pub(crate) prefix_append: Option<bool>,
    /// Forwards only trusted addresses of the received `X-Forwarded-For` and `Forwarded`. Default false, which keeps the client's address; true in a Spring file, as in Spring.
    pub(crate) trusted_only: Option<bool>,
}

/// `Forwarded` (RFC 7239), added only if the peer is one of `trusted-proxies`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawForwarded {
    /// Adds an element. Default true.
    pub(crate) enabled: Option<bool>,
    /// Parameter `by`: the gateway's own address.
    pub(crate) by: RawForwardedBy,
}

/// Parameter `by`: the gateway's own address.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawForwardedBy {
    /// Enables `by`. Default false.
    pub(crate) enabled: Option<bool>,
}

/// Spring's HTTP server.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttpServer {
    /// Makes predicates use the client address of `X-Forwarded-For` from a trusted proxy. Default false.
    pub(crate) customizer_enabled: Option<bool>,
}

/// Header names.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHeaders {
    /// Headers with `_` in their name: `drop`, `allow` or `reject` (400). Default `drop`: many upstreams cannot distinguish `_` from `-`.
    pub(crate) underscores: Option<Underscores>,
}
