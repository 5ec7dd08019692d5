//! Spring Boot's endpoints on the port for traffic: reads of what the file exposes, and nothing else.
//!
//! Clients of that port are anonymous. Without `management.tokens` they read what is exposed, as in Spring Boot; with
//! tokens, everything but health needs one.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use tollgate_filters::context::LocalReply;
use tower::service_fn;

use crate::admin::access::{Peer, authorize};
use crate::admin::admin_state::AdminState;
use crate::admin::api::{self, Call, EndpointSearch, Run};
use crate::admin::health;
use crate::admin::reply::method_not_allowed;
use tollgate_proxy::http::body::Body;
use tollgate_proxy::http::failure::Failure;
use tollgate_proxy::http::service::SharedService;

/// Returns the service that serves requests for these endpoints.
pub fn service(state: Arc<AdminState>) -> SharedService {
    SharedService::new(service_fn(move |request: Request<Body>| {
        let response = respond(&request, &state).unwrap_or_else(|| Failure::NoRoute.unrendered());
        ready(Ok::<_, Infallible>(response))
    }))
}

/// Returns the response to a request; `None` if it is for no endpoint.
fn respond(request: &Request<Body>, state: &Arc<AdminState>) -> Option<Response<Body>> {
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
        EndpointSearch::Endpoint(endpoint, _, values) => {
            let Run::Now(run) = endpoint.run else { return None };
            let (management, headers) = (&config.management, request.headers());
            match authorize(endpoint.access, !management.tokens.is_empty(), &Peer::Traffic, management, headers) {
                Ok(caller) => run(&Call {
                    state,
                    actuator: &endpoints.actuator,
                    values,
                    path,
                    query: "",
                    headers,
                    caller,
                    needs_identity: false,
                    may_read: true,
                }),
                Err(error) => error.response(),
            }
        }
        EndpointSearch::OtherMethods(allowed) => method_not_allowed(&allowed),
        EndpointSearch::Nothing => return None,
    };
    let mut response = response.map(|body: Full<Bytes>| Body::boxed(body.map_err(|never| match never {})));
    response.extensions_mut().insert(LocalReply { reason: "management" });
    Some(response)
}
