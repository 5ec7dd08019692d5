//! Traces of requests: their start, and the spans of limiters.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use pin_project_lite::pin_project;

use crate::gateway::generation::{Generation, Route};
use crate::http::attempts::ObservedAttempts;
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
    SharedService::wrapping(inner, |inner, request| {
        if let Some(TraceHandle(trace)) = request.extensions().get() {
            trace.limiters_ended(trace.open_limiters().saturating_sub(1));
        }
        inner.respond(request)
    })
}

/// Returns a limiter whose decisions are spans of sampled requests. Other requests go to `limiter` as they are.
pub(super) fn traced_limiter(limiter: SharedService, route: &Arc<str>) -> SharedService {
    let route = Arc::clone(route);
    SharedService::wrapping(limiter, move |limiter, request| {
        let Some(TraceHandle(trace)) = request.extensions().get().cloned() else { return limiter.respond(request) };
        let open = trace.open_limiters();
        trace.limiter_started(&route);
        let limiter = trace.scope(|| limiter.respond(request));
        Box::pin(TracedFuture { limiter, trace, open })
    })
}

pin_project! {
    /// Future of a limiter's response to a sampled request.
    struct TracedFuture<F> {
        #[pin]
        limiter: F,
        trace: Arc<RequestTrace>,
        // Number of limiters that were open before.
        open: usize,
    }
}

impl<F: Future> Future for TracedFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let polled = this.trace.scope(|| this.limiter.poll(cx));
        if polled.is_ready() {
            this.trace.limiters_ended(*this.open);
        }
        polled
    }
}
