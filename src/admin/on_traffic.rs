//! Spring Boot's endpoints on the port for traffic: reads of what the file exposes, and nothing else.
//!
//! Clients of that port are anonymous. Without `management.tokens` they read what is exposed, as in Spring Boot; with
//! tokens, everything but health needs one.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate_filters::context::LocalReply;
use tower::service_fn;

use crate::admin::access::authorize;
use crate::admin::api::{self, Found, Operation};
use crate::admin::peer::Peer;
use crate::admin::reply::{json, method_not_allowed, refusal};
use crate::admin::state::AdminState;
use crate::admin::{actuator, health, metrics, routes};
use tollgate_config::Actuator;
use tollgate_proxy::http::body::Body;
use tollgate_proxy::http::failure::Failure;
use tollgate_proxy::http::service::SharedService;

/// Returns the service that serves requests for these endpoints.
#[must_use]
pub fn service(state: Arc<AdminState>) -> SharedService {
    SharedService::new(service_fn(move |request: Request<Body>| {
        let response = respond(&request, &state).unwrap_or_else(|| Failure::NoRoute.unrendered());
        ready(Ok::<_, Infallible>(response))
    }))
}

/// Returns the response to a request; `None` if it is for no endpoint.
fn respond(request: &Request<Body>, state: &AdminState) -> Option<Response<Body>> {
    let config = state.config.load_full();
    let endpoints = config.management.on_traffic.as_ref()?;
    let path = request.uri().path();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let response = match api::find_exposed(request.method(), path, &endpoints.actuator) {
        _ if endpoints.has_probe_paths && ["/livez", "/readyz"].contains(&path) => match path {
            _ if !is_read => method_not_allowed("GET, HEAD"),
            "/livez" => health::live(),
            _ => health::ready(state),
        },
        Found::Endpoint(endpoint, values) => {
            let needs_token = !config.management.tokens.is_empty();
            match authorize(endpoint.access, needs_token, &Peer::Traffic, &config.management, request.headers()) {
                Ok(_) => read(endpoint.operation, &values, request, &endpoints.actuator, state)?,
                Err(error) => refusal(&error),
            }
        }
        Found::OtherMethods(allowed) => method_not_allowed(&allowed),
        Found::Nothing => return None,
    };
    let mut response = response.map(|body: Full<Bytes>| Body::boxed(body.map_err(|never| match never {})));
    response.extensions_mut().insert(LocalReply { reason: "management" });
    Some(response)
}

/// Does the work of an endpoint. Returns `None` for operations that this port does not have.
fn read(
    operation: Operation,
    values: &[String],
    request: &Request<Body>,
    exposed: &Actuator,
    state: &AdminState,
) -> Option<Response<Full<Bytes>>> {
    let id = values.first().map_or("", String::as_str);
    Some(match operation {
        Operation::Live => health::live(),
        Operation::Ready => health::ready(state),
        Operation::Health => health::summary(state, exposed.shows_components),
        Operation::Metrics => metrics::scrape(state, request.headers()),
        Operation::Index => actuator::index(exposed),
        Operation::GatewayIndex => routes::index(exposed),
        Operation::Routes => routes::list(state),
        Operation::Route => routes::one(state, id),
        Operation::CombinedFilters => routes::combined_filters(state, id),
        Operation::RouteDefinitions => routes::definitions(state),
        Operation::RouteFilters => json(StatusCode::OK, &routes::filters()),
        Operation::RoutePredicates => json(StatusCode::OK, &routes::predicates()),
        Operation::GlobalFilters => json(StatusCode::OK, &serde_json::json!({})),
        _ => return None,
    })
}
