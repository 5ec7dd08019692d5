//! Admin port: health, metrics, routes and limits, on a listener of its own.
//!
//! A request is checked for its host, finds its endpoint in the table of `api`, is authorized by `access`, and only
//! then does the endpoint's work. On a loopback address, the default, no token is needed.

mod access;
mod actuator;
mod api;
mod body;
mod breakers;
mod config_state;
mod expires_in;
mod guard;
mod health;
mod limits;
mod metrics;
mod query;
mod reply;
mod routes;
mod state;
mod top;
mod upstreams;

use std::cell::Cell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::access::{Caller, authorize};
use self::api::{Access, ENDPOINTS, Endpoint, Found, Operation};
pub use self::config_state::ConfigState;
use self::reply::{method_not_allowed, problem, problem_with, refusal};
pub use self::state::{AdminState, ReloadError, ReloadRequests, ReloadResult};

/// Timeout for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
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
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let state = Arc::clone(&state);
        tokio::task::spawn_local(async move {
            serve_connection(stream, peer.ip(), state).await;
            drop(permit);
        });
    }
}

/// Serves one connection, until it ends or a request takes longer than [`REQUEST_TIMEOUT`].
async fn serve_connection(stream: TcpStream, client: IpAddr, state: Arc<AdminState>) {
    let started = Rc::new(Cell::new(Instant::now()));
    let latest = Rc::clone(&started);
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        latest.set(Instant::now());
        async move { Ok::<_, Infallible>(respond(request, client, &state).await) }
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

/// Checks a request, and does the work of its endpoint.
async fn respond(request: Request<Incoming>, client: IpAddr, state: &AdminState) -> Response<Full<Bytes>> {
    if let Err(error) = guard::check_host(state.address, request.uri(), request.headers()) {
        return problem(StatusCode::FORBIDDEN, &error.to_string());
    }
    let config = state.config.load_full();
    let found = api::find(request.method(), request.uri().path(), &config.management.actuator);
    let access = if let Found::Endpoint(endpoint, _) = &found { endpoint.access } else { Access::Read };
    let caller = match authorize(access, state.address, &config.management, request.headers()) {
        Ok(caller) => caller,
        Err(error) => return refusal(&error),
    };
    match found {
        Found::Endpoint(endpoint, values) => {
            let response = run(endpoint.operation, &values, request, state).await;
            if endpoint.access == Access::Write {
                log_change(endpoint, client, &caller, &response);
            }
            response
        }
        Found::OtherMethods(allowed) => method_not_allowed(&allowed),
        Found::Nothing => {
            let named = |endpoint: &Endpoint| format!("{} {}", endpoint.method.as_str(), endpoint.template());
            let endpoints: Vec<String> = ENDPOINTS.iter().map(named).collect();
            problem_with(StatusCode::NOT_FOUND, "no such endpoint", Some(("endpoints", json!(endpoints))))
        }
    }
}

/// Does the work of an endpoint; `values` are those of its path's variables.
async fn run(
    operation: Operation,
    values: &[String],
    request: Request<Incoming>,
    state: &AdminState,
) -> Response<Full<Bytes>> {
    let config = state.config.load_full();
    let actuator = &config.management.actuator;
    let id = values.first().map_or("", String::as_str);
    match operation {
        Operation::Live => health::live(),
        Operation::Ready => health::ready(state),
        Operation::Health => health::summary(state, actuator.shows_components),
        Operation::Metrics => metrics::scrape(state, request.headers()),
        Operation::Index => actuator::index(actuator),
        Operation::GatewayIndex => routes::index(actuator),
        Operation::Routes => routes::list(state),
        Operation::Route => routes::one(state, id),
        Operation::CombinedFilters => routes::combined_filters(state, id),
        Operation::RouteDefinitions => routes::definitions(state),
        Operation::RouteFilters => reply::json(StatusCode::OK, &routes::filters()),
        Operation::RoutePredicates => reply::json(StatusCode::OK, &routes::predicates()),
        // Spring's global filters: Tollgate has no such chain.
        Operation::GlobalFilters => reply::json(StatusCode::OK, &json!({})),
        Operation::Refresh => actuator::refresh(state).await,
        Operation::Rules
        | Operation::ReadLimit
        | Operation::ManyLimits
        | Operation::SetLimit
        | Operation::ResetLimit => limits::respond(request, state).await,
        Operation::Config => config_state::show(state),
        Operation::Reload => config_state::reload(state).await,
        Operation::Upstreams => upstreams::list(state),
        Operation::Drain => upstreams::drain(request.into_body(), values, state).await,
        Operation::EndDrain => upstreams::end_drain(values, state),
        Operation::Breakers => breakers::list(state),
        Operation::ForceBreaker => breakers::force(request.into_body(), id, state).await,
        Operation::EndForce => breakers::end_force(id, state),
        Operation::OpenApi => reply::json(StatusCode::OK, &api::document(&config.management)),
        Operation::Top => top::respond(request.uri().query().unwrap_or_default(), state).await,
    }
}

/// Logs a change, applied or not. The path is that of the table: keys may be personal data.
fn log_change(endpoint: &Endpoint, client: IpAddr, caller: &Caller, response: &Response<Full<Bytes>>) {
    let (method, path, status) = (endpoint.method.as_str(), endpoint.template(), response.status().as_u16());
    let change = response.extensions().get::<reply::Audit>().map(|audit| audit.0.as_str());
    tracing::info!(%caller, %client, method, path, status, change, "change requested on the admin port");
}
