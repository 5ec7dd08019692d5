//! The YAML as typed, after [`crate::spring::normalize`]: our sections at the top level, each default beside its key.

use std::cell::Cell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::filters::FilterEntrySchema;
use crate::filters::raw::{RawFilterSettings, RawSetStatus};
use crate::predicates::raw::{RawApiVersion, RawPredicateSettings};
use crate::routes::raw::RawRouteEntry;
use crate::sections::access_log::RawAccessLog;
use crate::sections::cors::raw::{RawCors, RawGlobalCors};
use crate::sections::forwarding::raw::{RawForwarded, RawHttpServer, RawXForwarded};
use crate::sections::http_client::RawHttpClient;
use crate::sections::jwt::raw::RawJwt;
use crate::sections::log::RawLog;
use crate::sections::management::metrics::RawRequestSeries;
use crate::sections::memory::RawMemory;
use crate::sections::metering::RawMetering;
use crate::sections::resilience::RawResilience;
use crate::sections::scalars::{Scalar, StringOrList};
use crate::sections::server::raw::{RawManagement, RawRedis, RawServer};
use crate::sections::upstreams::{RawDiscovery, RawDns, RawLoadBalancer, RawUpstream};

/// Tollgate's configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(title = "Tollgate")]
pub(crate) struct RawConfig {
    /// The listener for traffic.
    pub(crate) server: RawServer,
    /// The listener for health, metrics and the API.
    pub(crate) management: RawManagement,
    /// Where limits are kept across gateways; absent: in memory.
    pub(crate) redis: Option<Spanned<RawRedis>>,
    /// JSON Web Tokens: what `jwt:CLAIM` believes.
    pub(crate) jwt: Option<Spanned<RawJwt>>,
    /// Limits kept in memory.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) memory: RawMemory,
    /// Counts of `RequestCounter` on their way to Redis.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) metering: RawMetering,
    /// One line a request.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) access_log: RawAccessLog,
    /// The gateway's own log, on standard error.
    #[schemars(extend("x-needs-restart" = true))]
    pub(crate) log: RawLog,
    /// Header names.
    pub(crate) headers: RawHeaders,
    /// The name in the `Via` field that is added to what is forwarded (RFC 9110 §7.6.3), or `false` for none. Default `tollgate`.
    #[schemars(with = "Option<Scalar>")]
    pub(crate) via: Option<Spanned<String>>,
    /// Peers whose `X-Forwarded-*` and `Forwarded` are believed: a list of addresses and networks, or Spring's one regular expression. Default: nobody.
    #[schemars(with = "StringOrList", example = &["10.0.0.0/8"])]
    pub(crate) trusted_proxies: Option<NodeRef>,
    /// `X-Forwarded-*` fields towards upstreams.
    pub(crate) x_forwarded: RawXForwarded,
    /// The `Forwarded` field towards upstreams.
    pub(crate) forwarded: RawForwarded,
    /// The server below the gateway.
    pub(crate) httpserver: RawHttpServer,
    /// Who may ask from other origins, on any path; preflights are answered whether or not a route takes them.
    pub(crate) cors: Option<Spanned<RawCors>>,
    /// Who may ask from other origins, by path.
    pub(crate) globalcors: RawGlobalCors,
    /// How requests that match a route are counted.
    pub(crate) metrics: RawRequestSeries,
    /// Connections to upstreams.
    pub(crate) httpclient: RawHttpClient,
    /// Several servers that do the same, by the name that `lb://NAME` calls them.
    pub(crate) upstreams: BTreeMap<String, Spanned<RawUpstream>>,
    /// Who is asked for the servers of `upstreams.NAME.dns`.
    pub(crate) dns: RawDns,
    /// What becomes of a request for which no server lives.
    pub(crate) loadbalancer: RawLoadBalancer,
    /// Spring's ways to find servers.
    #[schemars(skip)]
    pub(crate) discovery: RawDiscovery,
    /// Settings of filters wherever they stand.
    pub(crate) filter: RawFilterSettings,
    /// Circuit breakers: when they open and close, and how long calls may take.
    pub(crate) resilience4j: RawResilience,
    /// What `RequestRateLimiter` tells the client, wherever it stands.
    pub(crate) redis_rate_limiter: RawLimiterHeaders,
    /// What `SetStatus` tells the client, wherever it stands.
    pub(crate) set_status: RawSetStatus,
    /// Key resolvers by name: what `"#{@name}"` refers to. Default: none.
    #[schemars(with = "BTreeMap<String, StringOrList>")]
    pub(crate) key_resolvers: BTreeMap<String, NodeRef>,
    /// Filters of every route, merged with its own by position: default 1, own 1, default 2, … Default: none.
    #[schemars(with = "Vec<FilterEntrySchema>")]
    pub(crate) default_filters: Vec<NodeRef>,
    /// Settings of predicates wherever they stand.
    pub(crate) predicate: RawPredicateSettings,
    /// A path that every `Path` pattern is below, and every request that a route without `Path` takes. Default: none.
    pub(crate) base_path: Option<Spanned<String>>,
    /// Versions of an API: what the predicate `Version` compares with.
    pub(crate) api_version: Option<Spanned<RawApiVersion>>,
    /// Which requests go where.
    #[schemars(with = "Vec<RawRouteEntry>")]
    pub(crate) routes: Vec<NodeRef>,
    /// Whether a route with an error keeps the gateway from starting; `false` leaves such routes out with a warning. Default true.
    pub(crate) fail_on_route_definition_error: Option<bool>,
    /// Whether the gateway is on: any other value is refused. Default true.
    pub(crate) enabled: Option<Spanned<bool>>,
}

/// Header names.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHeaders {
    /// Headers with `_` in their name: `drop`, `allow` or `reject` (400). Default `drop`: many upstreams cannot tell `_` from `-`.
    pub(crate) underscores: Option<RawUnderscores>,
}

/// What happens to headers with `_` in their name.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawUnderscores {
    /// The header is removed.
    Drop,
    /// The header passes.
    Allow,
    /// The request is refused with 400.
    Reject,
}

/// What `RequestRateLimiter` tells the client.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLimiterHeaders {
    /// Whether limiters add headers. Default true.
    pub(crate) include_headers: Option<bool>,
    /// Tokens that are left. Default `X-RateLimit-Remaining`.
    pub(crate) remaining_header: Option<Spanned<String>>,
    /// Tokens that flow in each period. Default `X-RateLimit-Replenish-Rate`.
    pub(crate) replenish_rate_header: Option<Spanned<String>>,
    /// Tokens that the bucket holds. Default `X-RateLimit-Burst-Capacity`.
    pub(crate) burst_capacity_header: Option<Spanned<String>>,
    /// Tokens that a request takes. Default `X-RateLimit-Requested-Tokens`.
    pub(crate) requested_tokens_header: Option<Spanned<String>>,
    /// Families of fields: `spring`, `draft` (`RateLimit`) and `legacy` (`X-RateLimit-Limit`). Default `spring`.
    pub(crate) headers: Option<Vec<Spanned<String>>>,
}

/// The names of our sections.
pub(crate) fn sections() -> &'static [&'static str] {
    let names = Cell::new([].as_slice());
    // Deserialising fails at once, having told its field names.
    let _ = RawConfig::deserialize(Names(&names));
    names.get()
}

/// A deserializer that learns the field names of the struct that asks.
struct Names<'n>(&'n Cell<&'static [&'static str]>);

impl<'de> serde::Deserializer<'de> for Names<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("names only"))
    }

    fn deserialize_struct<V: serde::de::Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.set(fields);
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
