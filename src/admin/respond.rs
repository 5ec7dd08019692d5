//! Response to a request: checks its host and permission, and runs its endpoint.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::Either;
use hyper::body::Incoming;
use serde::Serialize;

use crate::admin::access::{Access, Caller, Peer, authorize};
use crate::admin::admin_state::AdminState;
use crate::admin::api::{self, Call, EndpointSearch, Run};
use crate::admin::deadline::Deadline;
use crate::admin::events::AdminBody;
use crate::admin::guard;
use crate::admin::reply::{Audit, method_not_allowed, problem, problem_with};
use crate::admin::request::parameters;

/// Member of the problem of an unknown endpoint.
#[derive(Serialize)]
struct KnownEndpoints {
    endpoints: Vec<String>,
}

/// Checks a request, and does the work of its endpoint.
pub(super) async fn respond(
    request: Request<Incoming>,
    peer: &Peer,
    state: &Arc<AdminState>,
    deadline: Deadline,
) -> Response<AdminBody> {
    let (head, body) = request.into_parts();
    // No browser can reach the Unix socket.
    if matches!(peer, Peer::Port { .. })
        && let Err(error) = guard::check_host(state.address, &head.uri, &head.headers)
    {
        return problem(StatusCode::FORBIDDEN, &error.to_string()).map(Either::Left);
    }
    let config = state.config.load_full();
    let management = &config.management;
    let search = api::find(&head.method, head.uri.path(), &management.actuator);
    let access = if let EndpointSearch::Endpoint(endpoint, ..) = &search { endpoint.access } else { Access::Read };
    let needs_identity = peer.needs_identity(state.address, management);
    let permission = |access| authorize(access, needs_identity, peer, management, &head.headers);
    let caller = match permission(access) {
        Ok(caller) => caller,
        Err(error) => return error.response().map(Either::Left),
    };
    let (endpoint, path, values) = match search {
        EndpointSearch::Endpoint(endpoint, path, values) => (endpoint, path, values),
        EndpointSearch::OtherMethods(allowed) => return method_not_allowed(&allowed).map(Either::Left),
        EndpointSearch::Nothing => {
            let members = KnownEndpoints { endpoints: api::all_names() };
            return problem_with(StatusCode::NOT_FOUND, "no such endpoint", members).map(Either::Left);
        }
    };
    let query = head.uri.query().unwrap_or_default();
    if let Some((name, _)) = parameters(query).next().filter(|_| endpoint.refuses_parameters(path)) {
        let detail = format!("unknown query parameter `{name}`; this endpoint has none");
        return problem(StatusCode::BAD_REQUEST, &detail).map(Either::Left);
    }
    let call = Call {
        state,
        actuator: &management.actuator,
        values,
        path: head.uri.path(),
        query,
        headers: &head.headers,
        caller: &caller,
        needs_identity,
        may_read: permission(Access::Read).is_ok(),
    };
    let response = match endpoint.run {
        Run::Now(run) => run(&call).map(Either::Left),
        Run::Wait(run) => run(&call, body).await.map(Either::Left),
        Run::Stream(run) => run(&call, deadline),
    };
    if endpoint.access == Access::Write {
        log_change(endpoint.names(path), peer, &caller, &response);
    }
    response
}

/// Logs a change, applied or not. The path is that of the table: keys may be personal data.
fn log_change((method, path): (&str, String), client: &Peer, caller: &Caller, response: &Response<AdminBody>) {
    let status = response.status().as_u16();
    let log = |change: Option<&str>| {
        tracing::info!(%caller, %client, method, path, status, change, "change requested on the admin port");
    };
    match response.extensions().get::<Audit>().map(|audit| &*audit.0) {
        None | Some([]) => log(None),
        Some(changes) => changes.iter().for_each(|change| log(Some(change))),
    }
}
