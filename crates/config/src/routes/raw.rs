//! A route as typed, and the shapes of predicates and filters for the schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::filters::FilterEntrySchema;
use crate::predicates::table::PredicateEntrySchema;
use crate::sections::cors::raw::RawCors;
use crate::sections::http_client::{RawClientHttp2, RawClientTls};

/// Which requests go where, and what happens to them on the way.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRoute {
    /// Its unique name, without `#`; limits are counted under it. Default `route-N`, by position.
    pub(crate) id: Option<Spanned<String>>,
    /// Where it leads: `http://host[:port]`, `https://host[:port]`, `lb://NAME` for one of `upstreams`, or `echo:` for the upstream within the gateway. `ws` and `wss` mean the same as `http` and `https`. Required.
    pub(crate) uri: Option<Spanned<String>>,
    /// Conditions that must all hold. Required.
    #[schemars(with = "Vec<RawCondition>")]
    pub(crate) predicates: Option<Vec<NodeRef>>,
    /// What happens to a request and its response, in the order in which a request meets them. Default: none.
    #[schemars(with = "Vec<FilterEntrySchema>")]
    pub(crate) filters: Vec<NodeRef>,
    /// Who may ask from other origins on the paths of this route. Preflights are answered whether or not a route takes them.
    pub(crate) cors: Option<Spanned<RawCors>>,
    /// `connect-timeout` and `response-timeout` (milliseconds; negative: none), `tls` and `http2` of this route, in place of those of `httpclient`, Spring's `cors`, and notes of your own. Default: none.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) metadata: Option<NodeRef>,
    /// TLS to this route's `https` target; `metadata.tls` means the same. Default: that of `httpclient.tls`.
    #[schemars(with = "Option<RawClientTls>")]
    pub(crate) tls: Option<NodeRef>,
    /// HTTP/2 with this route's target; `metadata.http2` means the same. Default: as `httpclient.http2`.
    pub(crate) http2: Option<RawClientHttp2>,
    /// Routes are tried in this order, lower first; equal ones as they stand. Default 0.
    pub(crate) order: i32,
    /// Whether the route exists. Default true.
    pub(crate) enabled: Option<bool>,
}

/// A route in full, or on one line: `id=uri,Predicate=arg`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "stands in the schema for what is read by hand")]
pub(crate) enum RawRouteEntry {
    /// In full.
    Full(Box<RawRoute>),
    /// On one line.
    Line(String),
}

/// A predicate, or several joined.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "stands in the schema for what is read by hand")]
pub(crate) enum RawCondition {
    /// A predicate.
    One(PredicateEntrySchema),
    /// One of these holds.
    Any {
        /// Conditions of which one must hold.
        any: Vec<RawCondition>,
    },
    /// All of these hold.
    All {
        /// Conditions that must all hold.
        all: Vec<RawCondition>,
    },
    /// This does not hold.
    Not {
        /// A condition that must not hold.
        not: Box<RawCondition>,
    },
}
