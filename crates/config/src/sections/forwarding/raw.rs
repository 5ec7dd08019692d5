//! Raw settings of forwarding headers.

use serde::Deserialize;

use crate::de::defaults::{Flag, Word};
use crate::de::spanned::Spanned;
use crate::sections::forwarding::model::Underscores;

/// `X-Forwarded-*` fields, added only if the peer is one of `trusted-proxies`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawXForwarded {
    /// Enables all of them. Default {}. Fields that are disabled are forwarded unchanged.
    pub(crate) enabled: Flag<true>,
    // Spring's order of the header filter.
    pub(crate) order: Option<Spanned<i64>>,
    /// Enables `X-Forwarded-For`, the peer's address.
    pub(crate) for_enabled: Flag<true>,
    /// Enables `X-Forwarded-Host`, the requested host.
    pub(crate) host_enabled: Flag<true>,
    /// Enables `X-Forwarded-Port`, the requested port.
    pub(crate) port_enabled: Flag<true>,
    /// Enables `X-Forwarded-Proto`, `http` or `https`.
    pub(crate) proto_enabled: Flag<true>,
    /// Enables `X-Forwarded-Prefix`, the part of the path that filters removed.
    pub(crate) prefix_enabled: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) for_append: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) host_append: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) port_append: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) proto_append: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) prefix_append: Flag<true>,
    /// Forwards only trusted addresses of the received `X-Forwarded-For` and `Forwarded`. Default {}, which keeps the client's address; true in a Spring file, as in Spring.
    pub(crate) trusted_only: Flag<false>,
}

/// `Forwarded` (RFC 7239), added only if the peer is one of `trusted-proxies`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawForwarded {
    /// Adds an element.
    pub(crate) enabled: Flag<true>,
    /// Parameter `by`: the gateway's own address.
    pub(crate) by: RawForwardedBy,
}

/// Parameter `by`: the gateway's own address.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawForwardedBy {
    /// Enables `by`.
    pub(crate) enabled: Flag<false>,
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
    /// Headers with `_` in their name: `drop`, `allow` or `reject` (400). Default {}: many upstreams cannot distinguish `_` from `-`.
    pub(crate) underscores: Word<Underscores>,
}
