//! One worker's gateway: screens a request, finds its route and runs it through the route's layers.

pub mod context;
mod generation;
pub mod respond;
pub mod screen;
pub mod service;
pub mod stack;

use std::any::Any;
use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use http::header::{CONNECTION, HOST, HeaderValue};
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::Instant;
use tollgate_filters::context::{LocalReply, RequestContext};
use tower::ServiceExt;

use context::Peer;
pub use generation::Resources;
pub use generation::{Generation, Route};
use respond::Failure;

use crate::body::Body;
use crate::config::TrustedProxies;
use crate::routing::RequestView;
use crate::server::connection::{ConnectionInfo, Handler};
use crate::server::drain::Stage;
use crate::telemetry::access_log::{AccessLog, Line};
use crate::telemetry::metrics::RouteMetrics;
use crate::telemetry::record::Record;
use crate::upstream::forwarded::client_ip;
use crate::upstream::headers::upgrade_of;

/// One worker's request handler. Its routes are swapped whole on a reload; a request keeps those it started with.
#[derive(Debug)]
pub struct Gateway {
    generation: RefCell<Rc<Generation>>,
    unrouted: Arc<RouteMetrics>,
    access_log: Option<Rc<AccessLog>>,
}

impl Gateway {
    /// A gateway that serves `generation`; what matches no route is counted in `unrouted`.
    #[must_use]
    pub fn new(generation: Generation, unrouted: Arc<RouteMetrics>, access_log: Option<Rc<AccessLog>>) -> Rc<Self> {
        Rc::new(Self { generation: RefCell::new(Rc::new(generation)), unrouted, access_log })
    }

    /// Serves `generation` from the next request on.
    pub fn swap(&self, generation: Generation) {
        *self.generation.borrow_mut() = Rc::new(generation);
    }

    /// From a request's head to its answer's head.
    async fn answer(
        &self,
        generation: &Generation,
        request: Request<Incoming>,
        connection: &ConnectionInfo,
        record: &mut Record,
    ) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        if let Some(log) = &self.access_log {
            let target = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            record.logged(Rc::clone(log), Line::new(connection.peer.ip(), target, head.version, &head.headers));
        }
        if let Err(failure) = screen::screen(&mut head, generation.underscores) {
            return failure.respond_to(&head.headers);
        }
        let view = RequestView {
            method: &head.method,
            path: head.uri.path(),
            query: head.uri.query(),
            headers: &head.headers,
            host: head.headers.get(HOST).and_then(|host| host.to_str().ok()),
            peer: connection.peer.ip(),
            now_ms,
        };
        let Some(found) = generation.table.find(&view) else {
            return Failure::NoRoute.respond_to(&head.headers);
        };
        let route: &Route = found.value;
        let variables = if route.needs_variables { found.variables(&view) } else { Vec::new() };
        record.routed(&route.id, &route.metrics);
        let expects_continue = head.headers.contains_key(http::header::EXPECT);
        let body = Body::from_client(body, generation.body_timeout, connection.http1 && !expects_continue);
        identify(&mut head, connection, &generation.trusted_proxies, route, variables, record);
        match route.service.clone().oneshot(Request::from_parts(head, body)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Adds to the request what its head does not say, where something down the chain asks for it.
fn identify(
    head: &mut Parts,
    connection: &ConnectionInfo,
    trusted_proxies: &TrustedProxies,
    route: &Route,
    variables: Vec<(Arc<str>, String)>,
    record: &mut Record,
) {
    let trusted = trusted_proxies.trusts(connection.peer.ip());
    if trusted || upgrade_of(head.version, &head.headers).is_some() {
        head.extensions.insert(Peer {
            address: connection.peer,
            trusted,
            activity: Arc::clone(&connection.activity),
            connections: Arc::clone(&connection.connections),
        });
    }
    let client = client_ip(connection.peer.ip(), &head.headers, trusted_proxies);
    record.client(client);
    if route.needs_context {
        head.extensions.insert(RequestContext {
            client_ip: Some(client),
            route_id: Some(Arc::clone(&route.id)),
            variables,
            ..RequestContext::default()
        });
    }
}

impl Handler for Gateway {
    async fn handle(self: Rc<Self>, request: Request<Incoming>, connection: Rc<ConnectionInfo>) -> Response<Body> {
        let activity = Arc::clone(&connection.activity);
        let mut record = Record::new(Instant::now(), activity, Arc::clone(&self.unrouted), request.method().clone());
        let generation = Rc::clone(&self.generation.borrow());
        let answered = unpanicked(pin!(self.answer(&generation, request, &connection, &mut record))).await;
        let mut response = answered.unwrap_or_else(|panic| {
            let what = panic_text(&*panic);
            tracing::error!(what, "a request failed by a defect of the gateway");
            Failure::Internal.into_response(false)
        });
        if connection.http1 && connection.connections.stage() > Stage::Open {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        record.answered(response.status(), response.extensions().get::<LocalReply>().map(|reply| reply.reason));
        response.map(|body| body.recorded(record))
    }
}

/// Polls a future to its end or to its panic, which then is this request's alone.
async fn unpanicked<F: Future>(mut future: Pin<&mut F>) -> Result<F::Output, Box<dyn Any + Send>> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// The wall clock, for predicates about time.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
