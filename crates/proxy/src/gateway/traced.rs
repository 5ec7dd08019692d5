//! Traces of requests: their start.

use std::sync::Arc;

use http::request::Parts;

use crate::gateway::generation::Generation;
use crate::gateway::route::Route;
use crate::http::attempts::ObservedAttempts;
use crate::http::handler::ConnectionInfo;
use crate::instrumentation::record::Record;
use crate::instrumentation::traces::Tracing;
use crate::instrumentation::traces::request::RequestTrace;
use crate::instrumentation::traces::server::ServerInfo;
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
        record.traced(trace);
    }
}
