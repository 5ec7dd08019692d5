//! Traces of requests: their start, and the spans of limiters.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::Service;
use tower::util::MapRequest;

use crate::gateway::generation::{Generation, Route};
use crate::http::attempts::ObservedAttempts;
use crate::http::body::Body;
use crate::http::handler::ConnectionInfo;
use crate::http::service::SharedService;
use crate::telemetry::record::Record;
use crate::telemetry::traces::Tracing;
use crate::telemetry::traces::request::{RequestTrace, TraceHandle};
use crate::telemetry::traces::server::ServerInfo;
use crate::upstream::forwarded::client_ip;

impl Generation {
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
            route: route.map(|route| &*route.id),
            pattern: patterns.iter().find(|(pattern, _)| pattern.matches(path, true)).map(|(_, text)| &**text),
        };
        let trace = tracing.start(sampled, head, &info);
        head.extensions.insert(ObservedAttempts(Arc::<RequestTrace>::clone(&trace)));
        head.extensions.insert(TraceHandle(Arc::clone(&trace)));
        record.traced(trace);
    }
}

/// Ends the span of the limiter in front of `inner`, which lets the request pass.
pub(super) fn ends_limiter(inner: SharedService) -> SharedService {
    SharedService::new(MapRequest::new(inner, |request: Request<Body>| {
        if let Some(TraceHandle(trace)) = request.extensions().get() {
            trace.limiters_ended(trace.open_limiters().saturating_sub(1));
        }
        request
    }))
}

/// Limiter whose decisions are spans of sampled requests.
#[derive(Clone, Debug)]
pub(super) struct TracedLimiter<S> {
    limiter: S,
    route: Arc<str>,
}

impl<S> TracedLimiter<S> {
    pub(super) fn new(limiter: S, route: &Arc<str>) -> Self {
        Self { limiter, route: Arc::clone(route) }
    }
}

impl<S: Service<Request<Body>, Response = Response<Body>>> Service<Request<Body>> for TracedLimiter<S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = TracedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.limiter.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> TracedFuture<S::Future> {
        let Some(TraceHandle(trace)) = request.extensions().get().cloned() else {
            return TracedFuture { limiter: self.limiter.call(request), trace: None };
        };
        let open = trace.open_limiters();
        trace.limiter_started(&self.route);
        let limiter = trace.scope(|| self.limiter.call(request));
        TracedFuture { limiter, trace: Some((trace, open)) }
    }
}

pin_project! {
    /// Future of a [`TracedLimiter`].
    pub(super) struct TracedFuture<F> {
        #[pin]
        limiter: F,
        // Trace, and the number of limiters that were open before.
        trace: Option<(Arc<RequestTrace>, usize)>,
    }
}

impl<F: Future> Future for TracedFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some((trace, open)) = this.trace else { return this.limiter.poll(cx) };
        let polled = trace.scope(|| this.limiter.poll(cx));
        if polled.is_ready() {
            trace.limiters_ended(*open);
        }
        polled
    }
}
