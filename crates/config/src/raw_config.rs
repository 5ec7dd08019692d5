//! The raw configuration, after [`crate::spring::normalize`]: our sections at the top level, defaults in doc comments.

use std::collections::BTreeMap;

use crate::de::{Flag, NodeRef, Spanned, Subtree, field_names};
use crate::filters::for_all_routes::{RawFilterSettings, RawSetStatus};
#[cfg(test)]
use crate::filters::schema::FilterEntrySchema;
use crate::key_resolvers::{Preflights, RepeatedKeys};
use crate::predicates::for_all_routes::{RawApiVersion, RawPredicateSettings};
use crate::rate_limiter::for_all_routes::RawLimiterHeaders;
#[cfg(test)]
use crate::routes::raw_route::RawRouteEntry;
use crate::sections::api_keys::RawApiKeys;
use crate::sections::cors::{RawCors, RawGlobalCors};
use crate::sections::files::ConfigFiles;
use crate::sections::forwarding::{RawForwarded, RawHeaders, RawHttpServer, RawXForwarded};
use crate::sections::http_client::HttpClient;
use crate::sections::jwt::RawJwt;
use crate::sections::logs::{AccessLog, Logging, RequestId};
use crate::sections::management::keys::{RawManagement, RawRequestSeries};
use crate::sections::memory::{Memory, Metering};
use crate::sections::redis::RawRedis;
use crate::sections::registries::consul::Consul;
use crate::sections::registries::eureka::Eureka;
use crate::sections::registries::kubernetes::Kubernetes;
use crate::sections::registries::nacos::Nacos;
use crate::sections::resilience::RawResilience;
use crate::sections::server::Server;
use crate::sections::upstreams::RawUpstream;
use crate::sections::upstreams::dns::Dns;
use crate::sections::upstreams::spring::{RawDiscovery, RawLoadBalancer};
#[cfg(test)]
use crate::sections::{Scalar, StringOrList};

/// Tollgate's configuration.
#[section]
#[cfg_attr(test, schemars(title = "Tollgate"))]
pub(crate) struct RawConfig {
    /// Listener for traffic.
    pub(crate) server: Server,
    /// Listener for health, metrics and the admin API.
    pub(crate) management: RawManagement,
    /// Redis, the store that gateways share limits in. Without it limits are kept in memory.
    pub(crate) redis: Option<Spanned<RawRedis>>,
    /// JSON Web Tokens (RFC 7519): keys and rules that `jwt:CLAIM` verifies tokens with.
    pub(crate) jwt: Option<Spanned<RawJwt>>,
    /// API keys that are verified: their hashes, and their places in requests.
    pub(crate) api_keys: Option<Spanned<RawApiKeys>>,
    /// Memory store of limits.
    pub(crate) memory: Memory,
    /// Transfer of `RequestCounter` counts to Redis.
    pub(crate) metering: Metering,
    /// Access log, one line per request.
    pub(crate) access_log: AccessLog,
    /// Request ids: forwarded to upstreams, sent back to clients, and logged.
    pub(crate) request_id: RequestId,
    /// Files of the configuration.
    #[serde(rename = "config")]
    pub(crate) files: ConfigFiles,
    /// Log of the gateway, on standard error.
    pub(crate) log: Logging,
    /// Checks of header names.
    pub(crate) headers: RawHeaders,
    /// Name in the `Via` field of forwarded requests and responses (RFC 9110 §7.6.3), or `false` for no field. Default `tollgate`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    pub(crate) via: Option<Spanned<String>>,
    /// Proxies trusted to report the client in `X-Forwarded-For`; their `X-Forwarded-*` and `Forwarded` are kept: a list of addresses and networks, or one regular expression as in Spring. Default: none.
    #[cfg_attr(test, schemars(with = "StringOrList", example = &["10.0.0.0/8"]))]
    pub(crate) trusted_proxies: Option<Subtree>,
    /// `X-Forwarded-*` fields in requests to upstreams.
    pub(crate) x_forwarded: RawXForwarded,
    /// `Forwarded` field in requests to upstreams.
    pub(crate) forwarded: RawForwarded,
    /// HTTP server of the gateway.
    pub(crate) httpserver: RawHttpServer,
    /// CORS policy for every path. Preflights are answered even if no route matches.
    pub(crate) cors: Option<Spanned<RawCors>>,
    /// CORS policies by path.
    pub(crate) globalcors: RawGlobalCors,
    /// Metrics of requests that match a route.
    pub(crate) metrics: RawRequestSeries,
    /// Connections to upstreams.
    pub(crate) httpclient: HttpClient,
    /// Load-balanced upstreams by name, the targets of `lb://NAME`.
    pub(crate) upstreams: BTreeMap<String, Spanned<RawUpstream>>,
    /// Consul as a registry of `lb://` names.
    pub(crate) consul: Option<Spanned<Consul>>,
    /// Eureka as a registry of `lb://` names.
    pub(crate) eureka: Option<Spanned<Eureka>>,
    /// Nacos as a registry of `lb://` names, by its HTTP API.
    pub(crate) nacos: Option<Spanned<Nacos>>,
    /// The API server of a Kubernetes cluster as a registry of `lb://` names, by EndpointSlices.
    pub(crate) kubernetes: Option<Spanned<Kubernetes>>,
    /// DNS resolver for `upstreams.NAME.dns`.
    pub(crate) dns: Dns,
    /// Response if no endpoint of an upstream is healthy.
    pub(crate) loadbalancer: RawLoadBalancer,
    /// Spring's service discovery.
    #[cfg_attr(test, schemars(skip))]
    pub(crate) discovery: RawDiscovery,
    /// Settings of filters, for all routes.
    pub(crate) filter: RawFilterSettings,
    /// Circuit breakers: thresholds and time limits.
    pub(crate) resilience4j: RawResilience,
    /// Response headers of `RequestRateLimiter`, for all routes.
    pub(crate) redis_rate_limiter: RawLimiterHeaders,
    /// Response header of `SetStatus`, for all routes.
    pub(crate) set_status: RawSetStatus,
    /// Key resolvers by name, referenced as `"#{@name}"`. The one named `default` is that of `RequestRateLimiter`s without `key-resolver`. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, StringOrList>"))]
    pub(crate) key_resolvers: BTreeMap<String, Subtree>,
    /// Stand-ins for filters and rate limiters of an application in Java, by their names: `skip`, `{use: jwt}`, which refuses requests without a valid token, or another filter as `{use: NAME, args: …}`. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, serde_json::Value>", example = &"{RequestTime: skip}"))]
    pub(crate) filter_beans: BTreeMap<String, NodeRef>,
    /// Requests that repeat the header, parameter or cookie of a key with another value: `refuse`, or `first`, which counts the first value and removes the others. Default `refuse`: an upstream may read another value than the gateway.
    pub(crate) repeated_keys: Option<RepeatedKeys>,
    /// A browser's preflight without the key of a filter: `by-address` counts it by client address, and `RequireToken` lets it pass; `by-key` treats it as any request without a key. Default `by-address`; in an application.yml `by-key`.
    pub(crate) preflights: Preflights,
    /// Filters of every route, merged with the route's own by position: default 1, own 1, default 2, … Default: none.
    #[cfg_attr(test, schemars(with = "Vec<FilterEntrySchema>"))]
    pub(crate) default_filters: Vec<NodeRef>,
    /// Settings of predicates, for all routes.
    pub(crate) predicate: RawPredicateSettings,
    /// Prefix of every `Path` pattern. Routes without `Path` match only below it. Default: none.
    pub(crate) base_path: Option<Spanned<String>>,
    /// API versions for the predicate `Version`.
    pub(crate) api_version: Option<Spanned<RawApiVersion>>,
    /// Routes, tried by `order`.
    #[cfg_attr(test, schemars(with = "Vec<RawRouteEntry>"))]
    pub(crate) routes: Vec<NodeRef>,
    /// Refuses a file with an invalid route; `false` drops such routes with a warning.
    pub(crate) fail_on_route_definition_error: Flag<true>,
    /// Enables the gateway; `false` is refused. Default true.
    pub(crate) enabled: Option<Spanned<bool>>,
}

/// Returns the names of our sections.
pub(crate) fn sections() -> &'static [&'static str] {
    field_names::<RawConfig>()
}
