//! The admin port: health, metrics, routes, limits. On a listener of its own, loopback by default, where alone what is
//! served can change something.

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

use crate::state::stores::SharedLimits;
use crate::telemetry::log_writer::LogWriter;
use crate::telemetry::metrics::Metrics;
use crate::upstream::balance::Upstreams;
use tollgate_config::Config;

/// How long a client of the admin port may take for a request's head, and between requests.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the admin port shows.
#[derive(Debug)]
pub struct AdminState {
    /// The running configuration.
    pub config: ArcSwap<Config>,
    /// The workers are started.
    pub ready: AtomicBool,
    /// The gateway is ending.
    pub draining: AtomicBool,
    /// Configurations taken over since the start.
    pub reloads: AtomicU64,
    /// Configurations refused since the start.
    pub failed_reloads: AtomicU64,
    limits: Arc<SharedLimits>,
    upstreams: Arc<Upstreams>,
    metrics: Arc<Metrics>,
    log: Mutex<Option<LogWriter>>,
    refreshes: mpsc::Sender<oneshot::Sender<bool>>,
}

/// Requests to read the configuration again, each to be told whether it was taken over.
pub type Refreshes = mpsc::Receiver<oneshot::Sender<bool>>;

impl AdminState {
    /// The state of a gateway about to start, and what is asked of it.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        limits: Arc<SharedLimits>,
        upstreams: Arc<Upstreams>,
        metrics: Arc<Metrics>,
        log: Option<LogWriter>,
    ) -> (Arc<Self>, Refreshes) {
        let (refreshes, asked) = mpsc::channel(1);
        let state = Self {
            refreshes,
            config: ArcSwap::new(config),
            ready: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
            limits,
            upstreams,
            metrics,
            log: Mutex::new(log),
        };
        (Arc::new(state), asked)
    }

    /// Asks that the configuration be read again, and waits for it; whether it was taken over, `None` from a gateway
    /// that is ending.
    async fn refresh(&self) -> Option<bool> {
        let (tell, told) = oneshot::channel();
        self.refreshes.send(tell).await.ok()?;
        told.await.ok()
    }

    /// Lets go of the access log, so that its thread can end.
    pub fn drop_log(&self) {
        *self.log.lock() = None;
    }
}

/// Serves the admin port for as long as the process runs.
pub async fn serve(listener: TcpListener, state: Arc<AdminState>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let state = Arc::clone(&state);
        let service = service_fn(move |request| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(answer(request, &state).await) }
        });
        tokio::task::spawn_local(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), service);
            let _ = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>, state: &AdminState) -> Response<Full<Bytes>> {
    let path = request.uri().path().trim_end_matches('/');
    if path.strip_prefix(limits::ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return limits::answer(request, state).await;
    }
    if let Some(answer) = actuator::answer(request.method(), path, state).await {
        return answer;
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here\n");
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

const INDEX: &str = "served here:\n  /health/live\n  /health/ready\n  /metrics\n  /actuator/health\n  \
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
