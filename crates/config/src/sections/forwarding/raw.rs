//! What upstreams are told of the hops before them, as typed.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::Spanned;

/// `X-Forwarded-*` fields, sent only where the peer is one of `trusted-proxies`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawXForwarded {
    /// Whether any of them is sent. Default true. What is not sent passes as it came.
    pub(crate) enabled: Option<bool>,
    /// Spring's order of the header filter.
    #[schemars(skip)]
    pub(crate) order: Option<Spanned<i64>>,
    /// `X-Forwarded-For`: the peer's address. Default true.
    pub(crate) for_enabled: Option<bool>,
    /// `X-Forwarded-Host`: the host that was asked for. Default true.
    pub(crate) host_enabled: Option<bool>,
    /// `X-Forwarded-Port`: its port. Default true.
    pub(crate) port_enabled: Option<bool>,
    /// `X-Forwarded-Proto`: `http` or `https`. Default true.
    pub(crate) proto_enabled: Option<bool>,
    /// `X-Forwarded-Prefix`: what filters took off the front of the path. Default true.
    pub(crate) prefix_enabled: Option<bool>,
    /// Behind what came, rather than in place of it. Default true.
    pub(crate) for_append: Option<bool>,
    /// Behind what came, rather than in place of it. Default true.
    pub(crate) host_append: Option<bool>,
    /// Behind what came, rather than in place of it. Default true.
    pub(crate) port_append: Option<bool>,
    /// Behind what came, rather than in place of it. Default true.
    pub(crate) proto_append: Option<bool>,
    /// Behind what came, rather than in place of it. Default true.
    pub(crate) prefix_append: Option<bool>,
    /// Pass on, of what came in `X-Forwarded-For` and `Forwarded`, only addresses that are trusted. Default false: the client's own address is worth knowing; true in a Spring file, as Spring does.
    pub(crate) trusted_only: Option<bool>,
}

/// `Forwarded` (RFC 7239), sent only where the peer is one of `trusted-proxies`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawForwarded {
    /// Whether an element is added. Default true.
    pub(crate) enabled: Option<bool>,
    /// Where the gateway was reached.
    pub(crate) by: RawForwardedBy,
}

/// Where the gateway was reached.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawForwardedBy {
    /// Whether `by` says so. Default false.
    pub(crate) enabled: Option<bool>,
}

/// The server below the gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttpServer {
    /// Whether a trusted proxy's `X-Forwarded-For` gives the address for predicates as well. Default false.
    pub(crate) customizer_enabled: Option<bool>,
}
