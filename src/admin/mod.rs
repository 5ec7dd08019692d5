//! Admin port: health, metrics, routes and limits, on a listener of its own. It is a loopback address by default; write
//! endpoints are served on loopback addresses only.

mod actuator;
mod guard;
mod health;
mod limits;
mod metrics;
mod reply;
mod routes;
mod state;

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::reply::{json, text};
pub use self::state::{AdminState, ReloadRequests};

/// Timeout for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a request as a whole, from its head to the last byte of the response that the client reads.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a request head in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of connections. Further clients wait in the accept queue.
const MAX_CONNECTIONS: usize = 128;

/// Serves the admin port until the process ends.
pub async fn serve(listener: TcpListener, state: Arc<AdminState>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let state = Arc::clone(&state);
        tokio::task::spawn_local(async move {
            serve_connection(stream, state).await;
            drop(permit);
        });
    }
}

/// Serves one connection, until it ends or a request takes longer than [`REQUEST_TIMEOUT`].
async fn serve_connection(stream: TcpStream, state: Arc<AdminState>) {
    let started = Rc::new(Cell::new(Instant::now()));
    let latest = Rc::clone(&started);
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        latest.set(Instant::now());
        async move { Ok::<_, Infallible>(respond(request, &state).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let expired = async {
        // Each request moves the deadline.
        loop {
            let deadline = started.get() + REQUEST_TIMEOUT;
            tokio::time::sleep_until(deadline).await;
            if started.get() + REQUEST_TIMEOUT <= deadline {
                return;
            }
        }
    };
    tokio::select! {
        _ = connection => {}
        () = expired => {}
    }
}

async fn respond(request: Request<Incoming>, state: &AdminState) -> Response<Full<Bytes>> {
    if let Err(error) = guard::check_host(state.address, request.uri(), request.headers()) {
        return json(StatusCode::FORBIDDEN, &json!({"error": error.to_string()}));
    }
    let path = request.uri().path().trim_end_matches('/');
    if path.strip_prefix(limits::ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return limits::respond(request, state).await;
    }
    if let Some(response) = actuator::respond(request.method(), path, request.headers(), state).await {
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
        "/metrics" => metrics::scrape(state, request.headers()),
        _ => text(StatusCode::NOT_FOUND, INDEX),
    }
}

const INDEX: &str = "endpoints:\n  /health/live\n  /health/ready\n  /metrics\n  /actuator/health\n  \
                     /actuator/prometheus\n  /actuator/gateway/routes[/ID]\n  /api/limits[/ROUTE/KEY]\n";
