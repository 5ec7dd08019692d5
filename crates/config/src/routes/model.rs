//! Checked routes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::cors::Policy;
use tollgate_filters::key_resolver::KeyResolver;

use crate::filters::model::Filter;
use crate::sections::cors::RouteCors;
use crate::sections::http_client::model::{Http2, Tls};
use crate::sections::upstreams::{Scheme, Upstream};
use tollgate_routing::Predicate;

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
    /// Replaces [`HttpClient::connect_timeout`].
    pub connect_timeout: Option<Duration>,
    /// Replaces [`HttpClient::response_timeout`]; `Some(None)`: no limit.
    pub response_timeout: Option<Option<Duration>>,
    /// Replaces [`HttpClient::tls`].
    pub tls: Option<Arc<Tls>>,
    /// Replaces [`HttpClient::http2`].
    pub http2: Option<Http2>,
    /// Who may ask from other origins, as the route has it; [`Config::cors`] has it by path.
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

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The upstream within the gateway that answers with what it received.
    Echo,
    /// Another route of the gateway, by this path.
    Forward(Arc<str>),
    /// Nowhere: the filters answer, and otherwise an empty 200 does.
    Nowhere,
    /// An HTTP server.
    Http {
        /// Whether it speaks TLS.
        scheme: Scheme,
        /// Its name or address, an IPv6 address without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
    /// One of several servers.
    Balanced {
        /// Which.
        upstream: Arc<Upstream>,
        /// How its endpoints are spoken to; `None`: each as its own URI says.
        scheme: Option<Scheme>,
    },
}

impl Target {
    /// What makes of a request the key that its endpoint is chosen by, where that is so.
    #[must_use]
    pub fn key_resolver(&self) -> Option<&KeyResolver> {
        match self {
            Self::Balanced { upstream, .. } => upstream.balance.key_resolver(),
            Self::Echo | Self::Http { .. } | Self::Forward(_) | Self::Nowhere => None,
        }
    }
}
