//! Keys of a route, and the shapes of predicates for the schema. `route` reads the values of `NodeRef`s from the tree.

#[cfg(test)]
use std::collections::BTreeMap;

use crate::de::{NodeRef, Spanned};
#[cfg(test)]
use crate::filters::schema::FilterEntrySchema;
#[cfg(test)]
use crate::predicates::schema::PredicateEntrySchema;
use crate::sections::cors::RawCors;
use crate::sections::http_client::Http2;
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;

/// Route: predicates, filters and a target.
#[section]
pub(crate) struct RawRoute {
    /// Unique id, without `#`; limits are counted by it. Default `route-N`, by position.
    pub(crate) id: Option<Spanned<String>>,
    /// Target: `http://host[:port]`, `https://host[:port]`, `lb://NAME` for one of `upstreams`, or `echo:` for the built-in upstream. `ws` and `wss` mean the same as `http` and `https`. Required.
    pub(crate) uri: Option<Spanned<String>>,
    /// Predicates, which must all match. Required.
    #[cfg_attr(test, schemars(with = "Vec<RawCondition>"))]
    pub(crate) predicates: Vec<NodeRef>,
    /// Filters in the order in which a request passes them. Default: none.
    #[cfg_attr(test, schemars(with = "Vec<FilterEntrySchema>"))]
    pub(crate) filters: Vec<NodeRef>,
    /// CORS policy for the paths of this route. Preflights are answered even if no route matches.
    pub(crate) cors: Option<Spanned<RawCors>>,
    /// `connect-timeout`, `response-timeout`, `read-timeout`, `tls` and `http2` of this route, which replace those of `httpclient`; `body-timeout`, which replaces that of `server` (timeouts in milliseconds; 0 or negative: none); Spring's `cors`, and your own notes. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub(crate) metadata: Option<NodeRef>,
    /// TLS to this route's `https` target; `metadata.tls` means the same. Default: `httpclient.tls`.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    pub(crate) tls: Option<NodeRef>,
    /// HTTP/2 with this route's target; `metadata.http2` means the same. Default: `httpclient.http2`.
    pub(crate) http2: Option<Http2>,
    /// Order in which routes are tried, lower first; routes with equal numbers in file order. Default 0.
    pub(crate) order: i32,
    /// Enables the route. Default true.
    pub(crate) enabled: Option<bool>,
}

/// A route as a map, or on one line: `id=uri,Predicate=arg`.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum RawRouteEntry {
    /// As a map.
    Full(Box<RawRoute>),
    /// On one line.
    Line(String),
}

/// A predicate, or several joined by `any`, `all` and `not`.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum RawCondition {
    /// A predicate.
    One(PredicateEntrySchema),
    /// At least one condition must match.
    Any {
        /// At least one of these conditions must match.
        any: Vec<RawCondition>,
    },
    /// All conditions must match.
    All {
        /// Predicates, which must all match.
        all: Vec<RawCondition>,
    },
    /// The condition must not match.
    Not {
        /// This condition must not match.
        not: Box<RawCondition>,
    },
}
