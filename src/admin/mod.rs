//! Admin port: health, metrics, routes and limits, on a listener of its own. It is a loopback address by default; write
//! endpoints are served on loopback addresses only.

mod actuator;
mod health;
mod limits;
mod metrics;
mod routes;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::state::stores::SharedStores;
use crate::telemetry::log_writer::LogWriter;
use crate::telemetry::metrics::Metrics;
use crate::upstream::balance::Upstreams;
use tollgate_config::Config;

/// Timeout for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// State of the process that the admin port reports.
#[derive(Debug)]
pub struct AdminState {
    /// Running configuration.
    pub config: ArcSwap<Config>,
    /// True once all workers accept connections.
    pub ready: AtomicBool,
    /// True once the gateway shuts down.
    pub draining: AtomicBool,
    /// Number of configurations applied since the start.
    pub reloads: AtomicU64,
    /// Number of configurations refused since the start.
    pub failed_reloads: AtomicU64,
    stores: Arc<SharedStores>,
    upstreams: Arc<Upstreams>,
    metrics: Arc<Metrics>,
    log: Mutex<Option<LogWriter>>,
    reload_requests: mpsc::Sender<oneshot::Sender<bool>>,
}

/// Requests to reload the configuration. Each expects a reply: true if the configuration was applied.
pub type ReloadRequests = mpsc::Receiver<oneshot::Sender<bool>>;

impl AdminState {
    /// Creates the state of a starting gateway, and the receiver of its reload requests.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        stores: Arc<SharedStores>,
        upstreams: Arc<Upstreams>,
        metrics: Arc<Metrics>,
        log: Option<LogWriter>,
    ) -> (Arc<Self>, ReloadRequests) {
        let (sender, reload_requests) = mpsc::channel(1);
        let state = Self {
            reload_requests: sender,
            config: ArcSwap::new(config),
            ready: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
            stores,
            upstreams,
            metrics,
            log: Mutex::new(log),
        };
        (Arc::new(state), reload_requests)
    }

    /// Reloads the configuration. Returns true if it was applied; `None` if the gateway is shutting down.
    async fn reload(&self) -> Option<bool> {
        let (reply, applied) = oneshot::channel();
        self.reload_requests.send(reply).await.ok()?;
        applied.await.ok()
    }

    /// Drops the handle of the access log, so that its thread can end.
    pub fn drop_log(&self) {
        *self.log.lock() = None;
    }
}

/// Serves the admin port until the process ends.
pub async fn serve(listener: TcpListener, state: Arc<AdminState>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let state = Arc::clone(&state);
        let service = service_fn(move |request| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(respond(request, &state).await) }
        });
        tokio::task::spawn_local(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            let _ = connection.await;
        });
    }
}

async fn respond(request: Request<Incoming>, state: &AdminState) -> Response<Full<Bytes>> {
    let path = request.uri().path().trim_end_matches('/');
    if path.strip_prefix(limits::ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return limits::respond(request, state).await;
    }
    if let Some(response) = actuator::respond(request.method(), path, state).await {
        return response;
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match path {
        "/health/live" => health::live(),
        "/health/ready" => health::ready(state),
        "/metrics" => metrics::scrape(state),
        _ => text(StatusCode::NOT_FOUND, INDEX),
    }
}

const INDEX: &str = "endpoints:\n  /health/live\n  /health/ready\n  /metrics\n  /actuator/health\n  \
                     /actuator/prometheus\n  /actuator/gateway/routes[/ID]\n  /api/limits[/ROUTE/KEY]\n";

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    reply(status, "text/plain; charset=utf-8", Bytes::from_static(body.as_bytes()))
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    reply(status, "application/json", format!("{body:#}\n").into())
}

fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
