//! Request handler of one worker: sanitizes a request, finds its route and runs the route's layers.
//!
//! [`mod@sanitize`] → route table ([`Generation`]) → [`stack`] → upstream. [`WorkerState`] builds a generation from
//! each configuration; [`respond`] turns failures into responses.

mod client_certificates;
pub mod cors;
mod declare;
mod error_form;
mod future;
mod generation;
pub mod layer_context;
pub mod limiter;
mod log_line;
mod observed_stores;
mod proxy_status;
mod reroute;
mod resilience;
pub mod respond;
mod response_cache;
mod route;
mod rpc;
pub mod sanitize;
pub mod stack;
mod worker_state;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use http::header::{EXPECT, ORIGIN};
use http::request::Parts;
use http::{Method, Request, StatusCode, Version};
use http_body::Body as _;
use tokio::time::Instant;
use tollgate_filters::context::{HasBody, RequestContext, UpgradeRequested};

use cors::{ClientTls, client_used_tls};
use error_form::ErrorForm;
pub use future::GatewayFuture;
use future::{Progress, panic_failure};
pub use generation::{Generation, SharedGeneration};
use reroute::ReceivedFrom;
pub use route::{Route, RouteStack};
use sanitize::{HeaderSummary, sanitize};
pub use worker_state::{WorkerState, upstream_name};

use crate::http::body::{Body, Incoming};
use crate::http::facts;
use crate::http::failure::Failure;
use crate::http::handler::{ConnectionInfo, Handler};
use crate::http::request_id::RequestId;
use crate::http::service::ResponseFuture;
use crate::instrumentation::access_log::{AccessLog, Details, LogLine, Target};
use crate::instrumentation::metrics::RouteMetrics;
use crate::instrumentation::record::{Record, RecordedBody};
use crate::instrumentation::traces::request::RequestTrace;
use crate::upstream::forwarded::{self, Hop, OriginalPath, client_ip};
use tollgate_routing::RequestView;

/// Request handler of one worker. A reload swaps the generation; each request keeps the one that it started with.
#[derive(Debug)]
pub struct Gateway {
    generation: RefCell<Rc<Generation>>,
    unrouted: Arc<RouteMetrics>,
    access_log: Option<Rc<AccessLog>>,
}

impl Gateway {
    /// Creates a gateway that serves `generation`. Requests without a route are counted in `unrouted`.
    #[must_use]
    pub fn new(generation: Generation, unrouted: Arc<RouteMetrics>, access_log: Option<Rc<AccessLog>>) -> Rc<Self> {
        Rc::new(Self { generation: RefCell::new(generation.in_use()), unrouted, access_log })
    }

    /// Serves further requests by `generation`. Returns the one before; requests in flight have their own parts of it.
    pub fn swap(&self, generation: Generation) -> Rc<Generation> {
        self.generation.replace(generation.in_use())
    }

    /// Sanitizes a request and responds to it, by an endpoint of the gateway itself or by its route.
    ///
    /// # Errors
    /// Returns the failure to respond with if the request is refused or no route matches.
    fn dispatch(
        &self,
        request: Request<Incoming>,
        connection: &ConnectionInfo,
        record: &mut Record,
        form: &mut ErrorForm,
    ) -> Result<ResponseFuture, Failure> {
        let generation = &*self.generation.borrow();
        let (mut head, incoming) = request.into_parts();
        let is_trusted = generation.trusted_proxies.trusts(connection.peer.ip());
        self.identify(generation, &head, connection, is_trusted, record);
        let sanitized = sanitize(&mut head, generation.sanitize, is_trusted);
        // Before the first refusal: a stream whose body is not wrapped is reset at once.
        let drains = match &sanitized {
            Ok(summary) => !summary.expects_continue,
            Err(_) => !head.headers.contains_key(EXPECT),
        };
        let rules = &generation.trailer_rules;
        let body = Body::from_client(incoming, generation.body_timeout, drains, rules, &connection.handle);
        *form = ErrorForm::of(generation, &mut head, connection, sanitized.as_ref().ok());
        let summary = sanitized?;
        if record.is_logged() {
            log_line::complete(generation, &head, &body, connection, record);
            if summary.changes_target {
                record.normalized(&head.uri, generation.config.api_keys.as_ref().map(|keys| &*keys.settings));
            }
        }
        if connection.certificate.is_some() || is_trusted {
            client_certificates::identify(generation, &mut head, connection, is_trusted, record);
        }
        match generation.own_endpoint(&head, connection) {
            Some(endpoint) => Ok(endpoint?.respond(Request::from_parts(head, body))),
            None => route(generation, head, body, summary, connection, is_trusted, record),
        }
    }

    /// Gives a request its id, and starts its log line with the head as received.
    #[inline]
    fn identify(
        &self,
        generation: &Generation,
        head: &Parts,
        connection: &ConnectionInfo,
        is_trusted: bool,
        record: &mut Record,
    ) {
        if let Some(name) = &generation.request_id {
            record.identified(RequestId::of(name, &head.headers, is_trusted));
        }
        if let Some(log) = &self.access_log {
            let request_id = record.request_id().map(RequestId::value);
            let mut line = log.start(head, connection, request_id);
            if let Some(keys) = &generation.config.api_keys {
                line.mask(&keys.settings);
            }
            record.logged(Rc::clone(log), line);
        }
    }
}

/// Finds the route of a request and calls the route's layers.
#[inline]
fn route(
    generation: &Generation,
    mut head: Parts,
    mut body: Body,
    summary: HeaderSummary,
    connection: &ConnectionInfo,
    is_trusted: bool,
    record: &mut Record,
) -> Result<ResponseFuture, Failure> {
    let peer = generation.routed_peer(&head, connection);
    let view = RequestView::new(&head.method, &head.uri, &head.headers, peer, fastrand::u64(..));
    let entry = generation.table.find(&view)?;
    let may_reroute = entry.as_ref().is_some_and(|entry| entry.value.may_reroute);
    // `prepare_head` extends the `X-Forwarded` fields, so they are read before.
    if (may_reroute || (generation.has_cors() && head.headers.contains_key(ORIGIN)))
        && client_used_tls(connection, &head.headers)
    {
        head.extensions.insert(ClientTls);
    }
    let Some(entry) = entry else {
        generation.begin_trace(&mut head, connection, None, record);
        let unrouted = generation.unrouted.as_ref().ok_or(Failure::NoRoute)?;
        return Ok(unrouted.respond(Request::from_parts(head, body)));
    };
    let route: &Route = entry.value;
    let stack = generation.stack(&entry).ok_or(Failure::Internal)?;
    let conditions = route.conditions.decide(&view)?;
    let variables = if route.needs_variables { entry.variables(&view) } else { Vec::new() };
    if route.may_reroute {
        head.extensions.insert(ReceivedFrom::new(peer, &head.headers));
    }
    generation.begin_trace(&mut head, connection, Some(route), record);
    record.routed(&route.id, stack.metrics_for(head.uri.path()));
    insert_context(&mut head, connection, generation, route, (variables, conditions), record);
    prepare_head(&mut head, summary, connection, generation, route, is_trusted);
    if let Some(id) = record.request_id() {
        id.set(&mut head.headers);
    }
    body.set_client_timeout(route.body_timeout);
    // No field shows a body over HTTP/2 without a length, or one in chunks once `prepare_head` has run.
    if head.method == Method::OPTIONS && !body.is_end_stream() {
        head.extensions.insert(HasBody);
    }
    Ok(call_layers(stack, (head, body), record))
}

/// Calls the layers of a route with a request. They report their facts and spans to `record`.
#[inline]
fn call_layers(stack: &RouteStack, (head, body): (Parts, Body), record: &mut Record) -> ResponseFuture {
    let mut facts = record.take_facts();
    let running = {
        let _scope = record.trace().map(RequestTrace::enter);
        let _collection = facts::collect(&mut facts);
        stack.service.respond(Request::from_parts(head, body))
    };
    record.set_facts(facts);
    running
}

/// Determines the client address, for the access log and for layers that read the request context.
fn insert_context(
    head: &mut Parts,
    connection: &ConnectionInfo,
    generation: &Generation,
    route: &Route,
    (variables, conditions): (Vec<(Arc<str>, String)>, u64),
    record: &mut Record,
) {
    // A later route may read the context, and cannot build it: the header fields have changed by then. Preflights are counted
    // by address where other requests have a key.
    let needs_context = route.needs_context || route.may_reroute || head.method == Method::OPTIONS;
    if !needs_context && !record.is_logged() {
        return;
    }
    let client = client_ip(connection.peer.ip(), &head.headers, &generation.trusted_proxies);
    record.client(client);
    if needs_context {
        head.extensions.insert(RequestContext {
            client_ip: Some(client),
            route_id: Some(Arc::clone(&route.id)),
            variables,
            conditions,
            ..RequestContext::default()
        });
    }
}

/// Removes header fields that end at this hop or that the client may not set, and adds forwarding headers. Filters run
/// later, so that the fields that they set are kept.
fn prepare_head(
    head: &mut Parts,
    summary: HeaderSummary,
    connection: &ConnectionInfo,
    generation: &Generation,
    route: &Route,
    is_trusted: bool,
) {
    if summary.has_upgrade
        && let Some(upgrades) = &generation.upgrades
        && let Some(upgrade) = upgrades.requested(head.version, &head.headers, &connection.handle)
    {
        head.extensions.insert(UpgradeRequested);
        head.extensions.insert(upgrade);
    }
    generation.header_policy.clean_request(&mut head.headers);
    if is_trusted || connection.is_proxied() {
        if route.sets_forwarded_prefix {
            head.extensions.insert(OriginalPath(head.uri.path().into()));
        }
        let hop = Hop { peer: connection.peer, local: connection.local, tls: connection.tls };
        forwarded::set_forwarded_headers(&mut head.headers, hop, &generation.forwarded, &generation.trusted_proxies);
    }
}

impl Handler for Gateway {
    type Body = RecordedBody<Body>;
    type Future = GatewayFuture;

    fn handle(&self, request: Request<Incoming>, connection: &ConnectionInfo) -> GatewayFuture {
        let mut record = Record::new(Instant::now(), Arc::clone(&self.unrouted), request.method().clone());
        let mut form = ErrorForm::default();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.dispatch(request, connection, &mut record, &mut form)));
        let progress = match outcome {
            Ok(Ok(running)) => Progress::Running(running),
            Ok(Err(failure)) => Progress::Refused(Some(failure)),
            Err(panic) => Progress::Refused(Some(panic_failure(&*panic))),
        };
        GatewayFuture { progress, form, record: Some(record) }
    }

    fn record_refusal(&self, connection: &ConnectionInfo, status: StatusCode, detail: &'static str) {
        // A head that cannot be read has no method and no target: `-` in the log, as in other servers.
        let method = Method::from_bytes(b"-").unwrap_or_default();
        let mut record = Record::new(Instant::now(), Arc::clone(&self.unrouted), method);
        record.answered(status, Some("unreadable-head"));
        if let Some(log) = &self.access_log {
            let version = if connection.http1 { Version::HTTP_11 } else { Version::HTTP_2 };
            let mut line = LogLine::new(connection.peer.ip(), Target::Text("-".into()), version);
            line.details = log.has_details().then(|| Details {
                tls: connection.tls_version,
                proxy_header: connection.proxy_header.clone(),
                ..Details::default()
            });
            record.logged(Rc::clone(log), line);
            record.refused(|| detail.into());
        }
    }
}

#[cfg(test)]
mod tests;
