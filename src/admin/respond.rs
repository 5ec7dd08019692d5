//! Response to a request: checks its host and permission, and runs its endpoint.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Either;
use hyper::body::Incoming;
use serde::Serialize;

use crate::admin::access::{Access, AccessError, Caller, Peer, RefusalReason, authorize};
use crate::admin::admin_state::AdminState;
use crate::admin::api::{self, Call, Endpoint, EndpointPath, EndpointSearch, Run};
use crate::admin::connection_slots::Deadline;
use crate::admin::events::AdminBody;
use crate::admin::guard;
use crate::admin::reply::{Audit, Reply, method_not_allowed, problem, problem_with};
use tollgate_config::Management;

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
    let config = state.config.load_full();
    let (endpoint, path, call) = match permitted(&head, peer, state, &config.management) {
        Ok(permitted) => permitted,
        Err(refusal) => return refusal.map(Either::Left),
    };
    let response = match endpoint.run {
        Run::Now(run) => run(&call).map(Either::Left),
        Run::Wait(run) => run(&call, body).await.map(Either::Left),
        Run::Stream(run) => run(&call, deadline),
    };
    if endpoint.access == Access::Write {
        log_change(endpoint.names(path), peer, &call.caller, &response);
    }
    response
}

/// Finds the endpoint of a request, and checks that the request is permitted. The error is the response that refuses it.
fn permitted<'c>(
    head: &'c Parts,
    peer: &Peer,
    state: &'c Arc<AdminState>,
    management: &'c Management,
) -> Result<(&'static Endpoint, EndpointPath, Call<'c>), Box<Reply>> {
    // No browser can reach the Unix socket.
    if matches!(peer, Peer::Port { .. })
        && let Err(error) = guard::check_host(state.address, management.origin.as_ref(), &head.uri, &head.headers)
    {
        return Err(refuse(&error.into(), &head.method, peer, state).into());
    }
    let search = api::find(&head.method, head.uri.path(), &management.actuator);
    let access = if let EndpointSearch::Endpoint(endpoint, ..) = &search { endpoint.access } else { Access::Read };
    let needs_identity = peer.needs_identity(state.address, management);
    let permission = |access| authorize(access, needs_identity, peer, management, &head.headers);
    let caller = permission(access).map_err(|error| refuse(&error, &head.method, peer, state))?;
    let (endpoint, path, values) = match search {
        EndpointSearch::Endpoint(endpoint, path, values) => (endpoint, path, values),
        EndpointSearch::OtherMethods(allowed) => return Err(method_not_allowed(&allowed).into()),
        EndpointSearch::Nothing => {
            let members = KnownEndpoints { endpoints: api::all_names() };
            return Err(problem_with(StatusCode::NOT_FOUND, "no such endpoint", members).into());
        }
    };
    let query = head.uri.query().unwrap_or_default();
    if let Some(detail) = endpoint.unknown_parameter(path, query) {
        return Err(problem(StatusCode::BAD_REQUEST, &detail).into());
    }
    let call = Call {
        state,
        actuator: &management.actuator,
        values,
        path: head.uri.path(),
        query,
        headers: &head.headers,
        caller,
        needs_identity,
        may_read: permission(Access::Read).is_ok(),
    };
    Ok((endpoint, path, call))
}

/// Counts and logs a refusal, and returns its response. A client without credentials, such as a browser that has yet to ask for
/// the token, causes no line. The log limits repeated lines.
fn refuse(error: &AccessError, method: &Method, client: &Peer, state: &AdminState) -> Reply {
    let reason = error.reason();
    state.refusals.count(reason);
    if reason != RefusalReason::NoCredentials {
        tracing::warn!(%client, %method, reason = reason.as_str(), %error, "request to the admin port refused");
    }
    error.response()
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
