//! Routes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::cors::Policy;
use tollgate_routing::Predicate;

use crate::model::filters::Filter;
use crate::model::http_client::{Http2, Tls};
use crate::model::target::Target;
use crate::yaml::Span;

/// Which requests go where, and what happens to them on the way.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its unique name.
    pub id: Arc<str>,
    /// Where it leads.
    pub uri: Target,
    /// Conditions that must all hold.
    pub predicates: Vec<Predicate>,
    /// Filters in the order in which a request meets them, default-filters among them.
    pub filters: Vec<Filter>,
    /// Routes are tried in this order, lower first.
    pub order: i32,
    /// Replaces [`crate::model::HttpClient::connect_timeout`].
    pub connect_timeout: Option<Duration>,
    /// Replaces [`crate::model::HttpClient::response_timeout`]; `Some(None)`: no limit.
    pub response_timeout: Option<Option<Duration>>,
    /// Replaces [`crate::model::HttpClient::tls`].
    pub tls: Option<Arc<Tls>>,
    /// Replaces [`crate::model::HttpClient::http2`].
    pub http2: Option<Http2>,
    /// Who may ask from other origins, as the route has it; [`Config::cors`](crate::Config::cors) has it by path.
    pub cors: Option<RouteCors>,
    /// The route as its author wrote it.
    pub definition: Definition,
}

/// Who may ask from other origins: the first pattern that matches the path has the policy.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    /// For requests that a route takes.
    pub by_path: Vec<(Predicate, Arc<Policy>)>,
    /// For those that none takes: preflights, for the most part.
    pub unrouted: Vec<(Predicate, Arc<Policy>)>,
}

/// What a route says of other origins.
#[derive(Clone, Debug)]
pub struct RouteCors {
    /// Who may ask.
    pub policy: Arc<Policy>,
    /// Whether it is `cors` of the route, and not Spring's `metadata.cors`.
    pub is_own: bool,
    /// Where it stands.
    pub(crate) span: Span,
}

/// A route as its author wrote it, for `/actuator/gateway/routes`.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The `uri`.
    pub uri: String,
    /// The predicates.
    pub predicates: Vec<String>,
    /// The filters in the order in which they apply, default-filters among them.
    pub filters: Vec<String>,
    /// The metadata, flattened.
    pub metadata: BTreeMap<String, String>,
}
