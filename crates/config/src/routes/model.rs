//! Checked routes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tollgate_filters::cors::Policy;
use tollgate_filters::key_resolver::KeyResolver;

use crate::de::Timeout;
use crate::filters::model::Filter;
use crate::model::Config;
use crate::rate_limiter::{Naming, RouteConditions};
use crate::sections::cors::RouteCors;
use crate::sections::http_client::Http2;
use crate::sections::tls::client::Tls;
use crate::sections::upstreams::Upstream;
use crate::sections::upstreams::endpoints::Scheme;
use crate::spec::Audience;
use tollgate_routing::Predicate;

/// Route: predicates, filters and a target.
#[derive(Clone, Debug)]
pub struct Route {
    /// Unique id.
    pub id: Arc<str>,
    /// Target.
    pub uri: Target,
    /// Predicates, which must all match.
    pub predicates: Vec<Predicate>,
    /// Filters in the order in which a request passes them, default filters included.
    pub filters: Vec<Filter>,
    /// Routes are tried in this order, lower first.
    pub order: i32,
    /// Replaces `HttpClient::connect_timeout`.
    pub connect_timeout: Option<Duration>,
    /// Replaces `HttpClient::response_timeout`; `Timeout(None)`: no limit.
    pub response_timeout: Option<Timeout>,
    /// Replaces `Server::body_timeout`; `Timeout(None)`: no limit.
    pub body_timeout: Option<Timeout>,
    /// Replaces `HttpClient::read_timeout`; `Timeout(None)`: no limit.
    pub read_timeout: Option<Timeout>,
    /// Replaces `HttpClient::tls`.
    pub tls: Option<Arc<Tls>>,
    /// Replaces `HttpClient::http2`.
    pub http2: Option<Http2>,
    /// CORS policy of the route; `Config::cors` has the policies by path.
    pub cors: Option<RouteCors>,
    /// The route as in the file.
    pub definition: Definition,
}

impl Route {
    /// Returns each `RequestRateLimiter` of the route with its number, in their order.
    pub fn rate_limiters(&self) -> impl Iterator<Item = Naming<'_>> {
        let limiters = self.filters.iter().filter_map(Filter::as_rate_limiter);
        limiters.enumerate().map(|(at, limiter)| Naming { route: &self.id, number: at + 1, limiter })
    }

    /// Returns the conditions of the rules of its limiters.
    pub fn conditions(&self) -> RouteConditions {
        RouteConditions::of(self.filters.iter().filter_map(Filter::as_rate_limiter))
    }

    /// Returns true if the route reads the API keys of requests.
    pub fn reads_api_keys(&self) -> bool {
        self.filters.iter().any(Filter::reads_api_key)
            || self.uri.key_resolver().is_some_and(KeyResolver::reads_api_key)
    }

    /// Returns the names of the request's header fields that the route reads, sets or removes.
    fn request_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let of_target = self.uri.key_resolver().into_iter().flat_map(KeyResolver::headers);
        let of_predicates = self.predicates.iter().flat_map(Predicate::headers);
        of_target.chain(of_predicates).chain(self.filters.iter().flat_map(Filter::request_headers))
    }
}

impl Config {
    /// Returns the names of the request's header fields that the gateway reads, sets or removes for a route.
    pub fn request_headers(&self) -> HashSet<HeaderName> {
        self.routes
            .iter()
            .flat_map(Route::request_headers)
            .chain(self.request_id.header(&self.access_log))
            .chain(self.api_keys.iter().map(|keys| &keys.settings.id_header))
            .cloned()
            .collect()
    }
}

/// CORS policies by path pattern; the first match applies.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    /// Policies of requests that match a route.
    pub by_path: Vec<(Predicate, Arc<Policy>)>,
    /// Policies of requests that match no route, mostly preflights.
    pub unrouted: Vec<(Predicate, Arc<Policy>)>,
    /// Keeps CORS fields of upstreams' responses behind those of the policy.
    pub keeps_upstream_headers: bool,
}

/// A route as in the file, for `/actuator/gateway/routes`.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The `uri`.
    pub uri: String,
    /// The predicates.
    pub predicates: Vec<String>,
    /// The filters in the order in which they apply, default filters included.
    pub filters: Vec<String>,
    /// The named arguments of each filter; empty for the short form.
    pub arguments: Vec<Vec<(String, String)>>,
    /// The same with values masked, for each [`Audience`]; `None` if nothing is masked, as in most routes.
    pub(super) masked: Option<Box<[MaskedDefinition; 2]>>,
    /// The metadata, flattened.
    pub metadata: BTreeMap<String, String>,
}

/// Parts of a [`Definition`] with values masked that may be secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MaskedDefinition {
    pub(super) predicates: Vec<String>,
    pub(super) filters: Vec<String>,
    pub(super) arguments: Vec<Vec<(String, String)>>,
}

impl Definition {
    /// Returns the predicates for `audience`, with values masked that may be secrets.
    pub fn masked_predicates(&self, audience: Audience) -> &[String] {
        self.masked_for(audience).map_or(&self.predicates, |masked| &masked.predicates)
    }

    /// Returns the filters for `audience`, with values masked that may be secrets.
    pub fn masked_filters(&self, audience: Audience) -> &[String] {
        self.masked_for(audience).map_or(&self.filters, |masked| &masked.filters)
    }

    /// Returns the named arguments of each filter for `audience`, with values masked that may be secrets.
    pub fn masked_arguments(&self, audience: Audience) -> &[Vec<(String, String)>] {
        self.masked_for(audience).map_or(&self.arguments, |masked| &masked.arguments)
    }

    fn masked_for(&self, audience: Audience) -> Option<&MaskedDefinition> {
        self.masked.as_deref().map(|[shell, network]| match audience {
            Audience::Shell => shell,
            Audience::Network => network,
        })
    }

    /// Puts a filter in front of all others.
    pub(super) fn prepend_filter(&mut self, filter: &str) {
        let masked = self.masked.iter_mut().flat_map(|masked| masked.iter_mut()).map(|masked| &mut masked.filters);
        for filters in masked.chain([&mut self.filters]) {
            filters.insert(0, filter.to_owned());
        }
    }
}

/// Target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Built-in upstream that returns the request.
    Echo,
    /// Another route of the gateway, by path.
    Forward(Arc<str>),
    /// No upstream: a filter responds, or else the response is an empty 200.
    Nowhere,
    /// An HTTP server.
    Http {
        /// Its scheme.
        scheme: Scheme,
        /// Its host; an IPv6 address without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
    /// An endpoint of an upstream.
    Balanced {
        /// The upstream.
        upstream: Arc<Upstream>,
        /// Scheme for all endpoints; `None`: that of each endpoint.
        scheme: Option<Scheme>,
    },
}

impl Target {
    /// Returns the key resolver of consistent hashing, if the upstream uses it.
    pub fn key_resolver(&self) -> Option<&KeyResolver> {
        match self {
            Self::Balanced { upstream, .. } => upstream.balance.key_resolver(),
            Self::Echo | Self::Http { .. } | Self::Forward(_) | Self::Nowhere => None,
        }
    }
}
