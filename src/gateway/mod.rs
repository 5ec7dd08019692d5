//! One worker's gateway: screens a request, finds its route and runs it through the route's layers.

mod cors;
mod generation;
mod limiter;
mod reroute;
mod resilience;
pub mod respond;
pub mod screen;
pub mod stack;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::ORIGIN;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::Instant;
use tollgate_filters::context::{Degraded, LocalReply, RequestContext, UpgradeRequested};

use cors::{OverTls, came_over_tls};
pub use generation::Resources;
pub use generation::{Generation, Route};
use reroute::Peer;
use respond::render;
use screen::{Seen, screen};

use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::http::fields::requested_upgrade;
use crate::http::handler::{ConnectionInfo, Handler};
use crate::http::service::ResponseFuture;
use crate::http::upgrade::Upgrade;
use crate::telemetry::access_log::{AccessLog, Line};
use crate::telemetry::metrics::RouteMetrics;
use crate::telemetry::record::{Record, RecordedBody};
use crate::upstream::forwarded::{self, Hop, OriginalPath, client_ip};
use tollgate_routing::RequestView;

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
        let generation = Rc::new(generation);
        generation.current.set(&generation);
        Rc::new(Self { generation: RefCell::new(generation), unrouted, access_log })
    }

    /// Serves `generation` from the next request on.
    pub fn swap(&self, generation: Generation) {
        let generation = Rc::new(generation);
        generation.current.set(&generation);
        *self.generation.borrow_mut() = generation;
    }

    /// From a request's head to the first step of its route's layers; an answer at once where there is none.
    fn begin(
        &self,
        request: Request<Incoming>,
        connection: &ConnectionInfo,
        record: &mut Record,
        as_problem: &mut bool,
    ) -> Result<ResponseFuture, Failure> {
        let generation = &*self.generation.borrow();
        let (mut head, incoming) = request.into_parts();
        if let Some(log) = &self.access_log {
            let target = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            record.logged(Rc::clone(log), Line::new(connection.peer.ip(), target, head.version, &head.headers));
        }
        let seen = screen(&mut head, generation.underscores)?;
        let mut peer = connection.peer.ip();
        if generation.believes_address {
            peer = client_ip(peer, &head.headers, &generation.trusted_proxies);
        }
        *as_problem = seen.as_problem;
        let view = RequestView::new(&head.method, &head.uri, &head.headers, peer, fastrand::u64(..));
        let drains = connection.http1 && !seen.expects_continue;
        let body = |body| Body::from_client(body, generation.body_timeout, drains, &connection.busy);
        let found = generation.table.find(&view);
        // The marks of trusted proxies end in `identify`.
        if generation.judges_origins && head.headers.contains_key(ORIGIN) {
            let trusted = generation.trusted_proxies.trusts(connection.peer.ip());
            if came_over_tls(connection, &head.headers, trusted) {
                head.extensions.insert(OverTls);
            }
        }
        let Some(found) = found else {
            let unrouted = generation.unrouted.as_ref().ok_or(Failure::NoRoute)?;
            return Ok(unrouted.respond(Request::from_parts(head, body(incoming))));
        };
        let route: &Route = found.value;
        let variables = if route.needs_variables { found.variables(&view) } else { Vec::new() };
        if route.forwards {
            head.extensions.insert(Peer(peer));
        }
        record.routed(&route.id, route.counted(head.uri.path()));
        identify(&mut head, seen, connection, generation, route, variables, record);
        Ok(route.service.respond(Request::from_parts(head, body(incoming))))
    }
}

/// Takes from the request what its client may not say, and adds what its head does not, where something down the
/// chain asks for it. The filters come after, so that what they set stands.
fn identify(
    head: &mut Parts,
    seen: Seen,
    connection: &ConnectionInfo,
    generation: &Generation,
    route: &Route,
    variables: Vec<(Arc<str>, String)>,
    record: &mut Record,
) {
    let peer = connection.peer;
    let trusted_proxies = &generation.trusted_proxies;
    if route.needs_context || record.is_logged() {
        let client = client_ip(peer.ip(), &head.headers, trusted_proxies);
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
    if seen.upgrade
        && generation.tunnels
        && let Some(protocol) = requested_upgrade(head.version, &head.headers)
    {
        head.extensions.insert(UpgradeRequested);
        head.extensions.insert(Upgrade { protocol, host: Arc::clone(&connection.tunnel_host) });
    }
    let trusted = trusted_proxies.trusts(peer.ip());
    generation.header_policy.clean_request(&mut head.headers, trusted);
    if trusted {
        if route.tells_prefix {
            head.extensions.insert(OriginalPath(head.uri.path().into()));
        }
        let hop = Hop { peer, local: connection.local, tls: connection.tls };
        forwarded::set_forwarded_headers(&mut head.headers, hop, &generation.forwarded, trusted_proxies);
    }
}

impl Handler for Gateway {
    type Body = RecordedBody<Body>;
    type Future = Answering;

    fn handle(&self, request: Request<Incoming>, connection: &ConnectionInfo) -> Answering {
        let mut record = Record::new(Instant::now(), Arc::clone(&self.unrouted), request.method().clone());
        let mut as_problem = false;
        let begun = catch_unwind(AssertUnwindSafe(|| self.begin(request, connection, &mut record, &mut as_problem)));
        let progress = match begun {
            Ok(Ok(running)) => Progress::Running(running),
            Ok(Err(failure)) => Progress::Refused(Some(failure)),
            Err(panic) => Progress::Refused(Some(panicked(&*panic))),
        };
        Answering { progress, as_problem, record: Some(record) }
    }
}

/// The answer to one request, as it comes about.
#[derive(Debug)]
pub struct Answering {
    progress: Progress,
    as_problem: bool,
    record: Option<Box<Record>>,
}

enum Progress {
    Running(ResponseFuture),
    Refused(Option<Failure>),
}

impl Future for Answering {
    type Output = Response<RecordedBody<Body>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<RecordedBody<Body>>> {
        let response = match &mut self.progress {
            // A panic ends this request and no other.
            Progress::Running(running) => match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
                Ok(answer) => match ready!(answer) {
                    Ok(response) => response,
                    Err(never) => match never {},
                },
                Err(panic) => panicked(&*panic).unrendered(),
            },
            Progress::Refused(failure) => failure.take().unwrap_or(Failure::Internal).unrendered(),
        };
        Poll::Ready(self.finish(response))
    }
}

impl Answering {
    fn finish(&mut self, mut response: Response<Body>) -> Response<RecordedBody<Body>> {
        let (mut reason, mut is_degraded) = (None, false);
        if !response.extensions().is_empty() {
            reason = response.extensions().get::<LocalReply>().map(|reply| reply.reason);
            is_degraded = response.extensions().get::<Degraded>().is_some();
            render(&mut response, self.as_problem);
        }
        let mut record = self.record.take();
        if let Some(record) = &mut record {
            record.answered(response.status(), reason);
            if is_degraded {
                record.degraded();
            }
        }
        response.map(|body| RecordedBody::new(body, record))
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Running(_) => "Running",
            Self::Refused(_) => "Refused",
        })
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let what = panic_text(panic);
    tracing::error!(what, "a request failed by a defect of the gateway");
    Failure::Internal
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
