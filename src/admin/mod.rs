//! Admin port: health, metrics, routes and limits, on a listener of its own.
//!
//! A request is checked for its host, finds its endpoint in the table of `api`, is authorized by `access`, and only
//! then does the endpoint's work. On a loopback address, the default, and on the Unix socket no token is needed.

mod access;
mod actuator;
mod api;
mod body;
mod breakers;
mod config_state;
mod connection;
mod connection_slots;
mod dashboard;
mod deadline;
mod events;
mod expires_in;
mod explain;
mod explain_schema;
mod guard;
mod health;
mod limits;
mod metrics;
pub mod on_traffic;
mod peer;
mod query;
mod reply;
mod routes;
mod schema;
pub mod serve;
pub mod socket;
mod state;
mod top;
mod upstreams;

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use serde_json::json;

use self::access::{Caller, authorize};
use self::api::{Access, ENDPOINTS, Endpoint, Found, Operation};
pub use self::config_state::ConfigState;
use self::deadline::Deadline;
use self::events::AdminBody;
use self::peer::Peer;
pub use self::peer::port_needs_identity;
use self::reply::{method_not_allowed, problem, problem_with, refusal};
pub use self::state::{AdminState, ReloadError, ReloadRequests, ReloadResult};

/// Checks a request, and does the work of its endpoint.
async fn respond(
    request: Request<Incoming>,
    peer: &Peer,
    state: &Arc<AdminState>,
    deadline: Deadline,
) -> Response<AdminBody> {
    // No browser can reach the Unix socket.
    if matches!(peer, Peer::Port { .. })
        && let Err(error) = guard::check_host(state.address, request.uri(), request.headers())
    {
        return problem(StatusCode::FORBIDDEN, &error.to_string()).map(Either::Left);
    }
    let config = state.config.load_full();
    let found = api::find(request.method(), request.uri().path(), &config.management.actuator);
    let access = if let Found::Endpoint(endpoint, _) = &found { endpoint.access } else { Access::Read };
    let needs_identity = peer.needs_identity(state.address, &config.management);
    let caller = match authorize(access, needs_identity, peer, &config.management, request.headers()) {
        Ok(caller) => caller,
        Err(error) => return refusal(&error).map(Either::Left),
    };
    if let Found::Endpoint(endpoint, _) = &found
        && let Some(name) = unknown_parameter(endpoint, request.uri().query())
    {
        let detail = format!("unknown query parameter `{name}`; this endpoint has none");
        return problem(StatusCode::BAD_REQUEST, &detail).map(Either::Left);
    }
    let response = match found {
        Found::Endpoint(Endpoint { operation: Operation::Events, .. }, _) => {
            return events::respond(request.headers(), state, deadline);
        }
        Found::Endpoint(endpoint, values) => {
            let response = match endpoint.operation {
                // The status is for everyone, the components are for those who may read.
                Operation::Health => {
                    let management = &config.management;
                    let may_read =
                        || authorize(Access::Read, needs_identity, peer, management, request.headers()).is_ok();
                    let actuator = &management.actuator;
                    let is_shown = actuator.shows_components && (actuator.components_are_open || may_read());
                    health::summary(state, is_shown)
                }
                operation => run(operation, &values, request, needs_identity, &caller, state).await,
            };
            if endpoint.access == Access::Write {
                log_change(endpoint, peer, &caller, &response);
            }
            response
        }
        Found::OtherMethods(allowed) => method_not_allowed(&allowed),
        Found::Nothing => {
            let named = |endpoint: &Endpoint| format!("{} {}", endpoint.method.as_str(), endpoint.template());
            let endpoints: Vec<String> = ENDPOINTS.iter().map(named).collect();
            problem_with(StatusCode::NOT_FOUND, "no such endpoint", Some(("endpoints", json!(endpoints))))
        }
    };
    response.map(Either::Left)
}

/// Returns the name of the first parameter of a query that the endpoint refuses.
fn unknown_parameter(endpoint: &Endpoint, query: Option<&str>) -> Option<String> {
    let query = query.filter(|_| endpoint.refuses_parameters())?;
    query::parameters(query).next().map(|(name, _)| name)
}

/// Does the work of an endpoint; `values` are those of its path's variables.
async fn run(
    operation: Operation,
    values: &[String],
    request: Request<Incoming>,
    needs_identity: bool,
    caller: &Caller,
    state: &AdminState,
) -> Response<Full<Bytes>> {
    let config = state.config.load_full();
    let actuator = &config.management.actuator;
    let id = values.first().map_or("", String::as_str);
    match operation {
        Operation::Dashboard => dashboard::page(),
        Operation::DashboardFile => dashboard::asset(id),
        Operation::Live => health::live(),
        Operation::Ready => health::ready(state),
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
        Operation::Overrides => limits::overrides::list(state),
        Operation::Override | Operation::OverrideAll | Operation::EndOverride | Operation::EndOverrideAll => {
            limits::overrides::respond(request, &caller.to_string(), state).await
        }
        Operation::Config => config_state::show(state),
        Operation::Reload => config_state::reload(state).await,
        Operation::Upstreams => upstreams::list(state),
        Operation::Drain => upstreams::drain(request.into_body(), values, state).await,
        Operation::EndDrain => upstreams::end_drain(values, state),
        Operation::Breakers => breakers::list(state),
        Operation::ForceBreaker => breakers::force(request.into_body(), id, state).await,
        Operation::EndForce => breakers::end_force(id, state),
        Operation::OpenApi => reply::json(StatusCode::OK, &api::document(&config.management, needs_identity)),
        // Answered by `respond`: one has no buffer as its body, one depends on the permission.
        Operation::Events | Operation::Health => problem(StatusCode::NOT_FOUND, "no such endpoint"),
        Operation::Explain => explain::respond(request.uri().query().unwrap_or_default(), state).await,
        Operation::Top => top::respond(request.uri().query().unwrap_or_default(), state).await,
    }
}

/// Logs a change, applied or not. The path is that of the table: keys may be personal data.
fn log_change(endpoint: &Endpoint, client: &Peer, caller: &Caller, response: &Response<Full<Bytes>>) {
    let (method, path, status) = (endpoint.method.as_str(), endpoint.template(), response.status().as_u16());
    let log = |change: Option<&str>| {
        tracing::info!(%caller, %client, method, path, status, change, "change requested on the admin port");
    };
    match response.extensions().get::<reply::Audit>().map(|audit| &*audit.0) {
        None | Some([]) => log(None),
        Some(changes) => changes.iter().for_each(|change| log(Some(change))),
    }
}
