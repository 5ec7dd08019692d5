//! One configuration in the form that requests use: a [`SharedGeneration`] for all workers, and a [`Generation`] with the
//! layer stacks of one.

use std::any::Any;
use std::cell::OnceCell;
use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response};
use tokio::sync::Semaphore;
use tollgate_filters::context::LocalReply;
use tower::service_fn;

use crate::gateway::cors::{PolicyTable, client_used_tls};
use crate::gateway::declare::declare;
use crate::gateway::proxy_status::OwnFields;
use crate::gateway::route::{Route, RouteStack};
use crate::gateway::sanitize::SanitizeRules;
use crate::gateway::worker_state::WorkerState;
use crate::http::attempts::ObservedAttempts;
use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::http::handler::ConnectionInfo;
use crate::http::service::SharedService;
use crate::http::trailers::TrailerRules;
use crate::http::upgrade::UpgradePolicy;
use crate::instrumentation::metrics::Metrics;
use crate::instrumentation::record::Record;
use crate::instrumentation::traces::Tracing;
use crate::instrumentation::traces::request::RequestTrace;
use crate::instrumentation::traces::server::ServerInfo;
use crate::state::stores::SharedStores;
use crate::upstream::forwarded::client_ip;
use crate::upstream::headers::HeaderPolicy;
use tollgate_config::{Config, ForwardedHeaders, TrustedProxies, challenge_response};
use tollgate_routing::{Predicate, RouteEntry, RouteTable};

/// Configuration in the form that requests use, without the parts of one worker. It is built once, on any thread.
#[derive(Debug)]
pub struct SharedGeneration {
    /// The configuration.
    pub config: Arc<Config>,
    /// Route table. Its routes have the positions of those in `config`.
    pub table: RouteTable<Route>,
    /// Proxies trusted to report the client address.
    pub trusted_proxies: TrustedProxies,
    /// Header field of the request id; `None` if requests have none.
    pub request_id: Option<HeaderName>,
    /// Fields that the gateway adds to responses; `None` for none.
    pub(super) own_fields: Option<Arc<OwnFields>>,
    /// Requests that get no line in the access log match one of its routes; `None` if all get one.
    pub(super) unlogged: Option<RouteTable<()>>,
    /// Checks of requests before routing.
    pub sanitize: SanitizeRules,
    /// Fields that trailers of clients may not have.
    trailer_rules: TrailerRules,
    /// Header fields that are not forwarded.
    pub header_policy: Arc<HeaderPolicy>,
    /// Timeout for the next part of a request body without a route; `None` for no limit.
    pub body_timeout: Option<Duration>,
    /// True if predicates see the client address that a trusted peer reports.
    pub uses_reported_address: bool,
    /// Forwarding headers sent to upstreams.
    pub forwarded: ForwardedHeaders,
    /// Rules for requests to switch protocols; `None` if none is tunnelled.
    pub upgrades: Option<UpgradePolicy>,
    /// CORS policies of routes.
    pub(super) cors: Option<PolicyTable>,
    /// CORS policies of requests without a route.
    pub(super) unrouted_cors: Option<PolicyTable>,
    /// True if requests may be for the gateway itself: for its endpoints, a redirect to HTTPS, or a challenge of an ACME server.
    has_own_endpoints: bool,
    /// A permit of each worker that serves this configuration.
    pub serving: Semaphore,
    /// Metrics, caches and circuit breakers of the configuration, also of routes without a request.
    _declared: Vec<Arc<dyn Any + Send + Sync>>,
}

/// Generation of one worker. The layers of a route are stacked by its first request, so that a reload takes no time and
/// idle routes take no memory.
#[derive(Debug)]
pub struct Generation {
    shared: Arc<SharedGeneration>,
    worker: Rc<WorkerState>,
    stacks: Vec<OnceCell<Box<RouteStack>>>,
    /// Fields that trailers of clients may not have.
    pub(super) trailer_rules: Rc<TrailerRules>,
    /// Service for requests without a route, if a CORS policy applies to them.
    pub(super) unrouted: Option<SharedService>,
    /// Endpoints of the gateway itself, before all routes; `None` without any.
    pub(super) own_endpoints: Option<SharedService>,
    /// Traces of requests; `None` if they are off.
    pub tracing: Option<Tracing>,
}

// === impl SharedGeneration ===

impl SharedGeneration {
    /// Builds the generation of `config`. `is_traced` is true if traces are on.
    #[must_use]
    pub fn new(config: Arc<Config>, stores: &SharedStores, metrics: &Metrics, is_traced: bool) -> Self {
        let cors = PolicyTable::new(&config.cors.by_path);
        let routes =
            config.routes.iter().map(|route| (route.predicates.clone(), Route::new(route, &config, is_traced)));
        Self {
            table: RouteTable::new(routes.collect()),
            trusted_proxies: config.forwarding.trusted_proxies.clone(),
            request_id: config.request_id.header(&config.access_log).cloned(),
            own_fields: OwnFields::of(&config.server),
            unlogged: unlogged(&config.access_log.exclude),
            sanitize: SanitizeRules::of(&config),
            trailer_rules: TrailerRules::of(&config),
            header_policy: Arc::new(HeaderPolicy::of(&config)),
            body_timeout: config.server.body_timeout.get(),
            uses_reported_address: config.forwarding.trusts_client_address,
            forwarded: config.forwarding.headers,
            upgrades: UpgradePolicy::of(&config),
            cors,
            unrouted_cors: PolicyTable::new(&config.cors.unrouted),
            has_own_endpoints: config.management.on_traffic.is_some()
                || config.server.redirects_to_https()
                || config.server.acme.is_some(),
            serving: Semaphore::new(0),
            _declared: declare(&config, stores, metrics),
            config,
        }
    }

    /// Returns true if there is a CORS policy, which needs the scheme of the client.
    pub(super) fn has_cors(&self) -> bool {
        self.cors.is_some() || self.unrouted_cors.is_some()
    }
}

/// Returns a table with a route for each of the predicates.
fn unlogged(predicates: &[Predicate]) -> Option<RouteTable<()>> {
    let routes = predicates.iter().map(|predicate| (vec![predicate.clone()], ()));
    (!predicates.is_empty()).then(|| RouteTable::new(routes.collect()))
}

// === impl Generation ===

impl Generation {
    pub(super) fn new(
        shared: Arc<SharedGeneration>,
        worker: Rc<WorkerState>,
        unrouted: Option<SharedService>,
        own_endpoints: Option<SharedService>,
        tracing: Option<Tracing>,
    ) -> Self {
        let stacks = shared.table.iter().map(|_| OnceCell::new()).collect();
        let trailer_rules = Rc::new(shared.trailer_rules.clone());
        Self { shared, worker, stacks, trailer_rules, unrouted, own_endpoints, tracing }
    }

    /// Makes this the generation that requests are routed again in.
    pub(super) fn in_use(self) -> Rc<Self> {
        let generation = Rc::new(self);
        generation.worker.set_current(&generation);
        generation
    }

    /// Returns the layers of a route of the table. The first call stacks them.
    #[inline]
    pub fn stack(&self, route: &RouteEntry<'_, Route>) -> Option<&RouteStack> {
        let stack = self.stacks.get(route.index)?;
        match stack.get() {
            Some(stack) => Some(stack),
            None => self.build(stack, route.index),
        }
    }

    #[cold]
    fn build<'g>(&self, stack: &'g OnceCell<Box<RouteStack>>, index: usize) -> Option<&'g RouteStack> {
        let route = self.config.routes.get(index)?;
        Some(stack.get_or_init(|| Box::new(self.worker.build_stack(route, &self.shared))))
    }

    /// Returns the service of a request that is for an endpoint of the gateway itself. With a redirect to HTTPS, such an
    /// endpoint has all paths without TLS, unless a trusted proxy says that its client used TLS.
    #[inline]
    pub(super) fn own_endpoint(
        &self,
        head: &Parts,
        connection: &ConnectionInfo,
    ) -> Option<Result<SharedService, Failure>> {
        if self.has_own_endpoints { self.find_own_endpoint(head, connection) } else { None }
    }

    #[inline(never)]
    fn find_own_endpoint(&self, head: &Parts, connection: &ConnectionInfo) -> Option<Result<SharedService, Failure>> {
        let server = &self.config.server;
        if !connection.tls
            && server.acme.is_some()
            && let Some(text) = challenge_response(head.uri.path())
        {
            return Some(Ok(SharedService::new(service_fn(move |_: Request<Body>| {
                let mut response = Response::new(Body::from(Bytes::from(text.clone())));
                response.extensions_mut().insert(LocalReply { reason: "acme-challenge" });
                ready(Ok::<_, Infallible>(response))
            }))));
        }
        if !connection.tls && server.redirects_to_https() && !client_used_tls(connection, &head.headers) {
            return Some(Err(to_https(head, server.port.get())));
        }
        let service = self.own_endpoints.as_ref()?;
        self.config.management.on_traffic.as_ref()?.owns(head.uri.path()).then(|| Ok(service.clone()))
    }

    /// Starts the trace of a request, if traces are on and it is sampled. `route` is `None` without a route.
    #[inline]
    pub(super) fn begin_trace(
        &self,
        head: &mut Parts,
        connection: &ConnectionInfo,
        route: Option<&Route>,
        record: &mut Record,
    ) {
        // The rest is a call of its own, so that traces that are off cost one comparison.
        if let Some(tracing) = &self.tracing {
            self.sample(tracing, head, connection, route, record);
        }
    }

    #[inline(never)]
    fn sample(
        &self,
        tracing: &Tracing,
        head: &mut Parts,
        connection: &ConnectionInfo,
        route: Option<&Route>,
        record: &mut Record,
    ) {
        let Some(sampled) = tracing.decide(&mut head.headers) else { return };
        let path = head.uri.path();
        let patterns = route.map(|route| &*route.patterns).unwrap_or_default();
        let info = ServerInfo {
            started: record.started().into_std(),
            client: client_ip(connection.peer.ip(), &head.headers, &self.trusted_proxies),
            is_tls: connection.tls,
            subject: connection.certificate.as_ref().map(|certificate| &*certificate.client.subject),
            route: route.map(|route| &*route.id),
            pattern: patterns.iter().find(|(pattern, _)| pattern.matches(path, true)).map(|(_, text)| &**text),
        };
        let trace = tracing.start(sampled, head, &info);
        head.extensions.insert(ObservedAttempts(Arc::<RequestTrace>::clone(&trace)));
        record.traced(trace);
    }

    /// Returns the address that predicates see: that of the peer, or the one that a trusted peer reports.
    #[inline]
    pub(super) fn routed_peer(&self, head: &Parts, connection: &ConnectionInfo) -> IpAddr {
        let peer = connection.peer.ip();
        if self.uses_reported_address { client_ip(peer, &head.headers, &self.trusted_proxies) } else { peer }
    }

    /// Returns the layer stacks.
    pub(crate) fn into_stacks(self) -> impl Iterator<Item = Box<RouteStack>> {
        self.stacks.into_iter().filter_map(OnceCell::into_inner)
    }
}

/// Returns the redirect of a request to HTTPS. A client that came to the default port of HTTP finds the default port of HTTPS,
/// whatever ports the gateway has behind a mapping; another client finds `port`.
fn to_https(head: &Parts, port: u16) -> Failure {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty());
    let Some(host) = host else { return Failure::BadRequest("a redirect to HTTPS needs a Host field") };
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let location = match host.rsplit_once(':') {
        Some((name, "80")) => format!("https://{name}{target}"),
        Some((name, request_port)) if is_port(request_port) && port == 443 => format!("https://{name}{target}"),
        Some((name, request_port)) if is_port(request_port) => format!("https://{name}:{port}{target}"),
        _ => format!("https://{host}{target}"),
    };
    HeaderValue::try_from(location).map_or(Failure::BadRequest("the target is no part of a URI"), Failure::ToHttps)
}

impl Deref for Generation {
    type Target = SharedGeneration;

    fn deref(&self) -> &SharedGeneration {
        &self.shared
    }
}
