//! OpenAPI 3.1 document of the admin port, made from the table of endpoints.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::admin::access::Access;
use crate::admin::api::description::of_reply;
use crate::admin::api::endpoint::{Base, Call, Endpoint, EndpointPath, template};
use crate::admin::reply::{self, PROBLEM, Problem, Reply};
use tollgate_config::Management;

/// The document.
#[reply]
pub(super) struct Document {
    openapi: &'static str,
    info: Info,
    /// Operations by path and method.
    paths: BTreeMap<String, Map<String, Value>>,
    components: Components,
}

#[reply]
struct Info {
    title: &'static str,
    version: &'static str,
    description: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Components {
    security_schemes: Value,
    schemas: Value,
}

/// Returns the document of `endpoints` for the sender of a request.
pub(super) fn respond(endpoints: &[Endpoint], call: &Call<'_>) -> Reply {
    let config = call.state.config.load();
    reply::json(StatusCode::OK, &document(endpoints, &config.management, call.needs_identity))
}

/// Returns the document of those of `endpoints` that `management` enables. `needs_token` is false for a
/// client that needs neither a token nor a certificate.
fn document(endpoints: &[Endpoint], management: &Management, needs_token: bool) -> Document {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (endpoint, path) in
        endpoints.iter().flat_map(|endpoint| endpoint.paths.iter().map(move |path| (endpoint, *path)))
    {
        let base = path.base(&management.actuator).filter(|_| endpoint.is_enabled(path, &management.actuator));
        if let Some(base) = base {
            let methods = paths.entry(template(&format!("{base}{}", path.1))).or_default();
            methods.insert(endpoint.method.as_str().to_lowercase(), operation(endpoint, path, management, needs_token));
        }
    }
    Document {
        openapi: "3.1.0",
        info: Info {
            title: "Tollgate admin API",
            version: env!("CARGO_PKG_VERSION"),
            description: "On a loopback address and on the Unix socket no token is needed.",
        },
        paths,
        components: Components {
            security_schemes: json!({
                "token": {"type": "http", "scheme": "bearer", "description": "`management.tokens`"},
                "certificate": {"type": "mutualTLS", "description": "`management.server.ssl.client-auth`"},
            }),
            schemas: json!({"Problem": of_reply::<Problem<'_>>()}),
        },
    }
}

fn operation(endpoint: &Endpoint, path: EndpointPath, management: &Management, needs_token: bool) -> Value {
    let description = &endpoint.description;
    let has_certificates = management.tls.as_ref().is_some_and(|tls| tls.identifies_clients);
    let is_open = match endpoint.access {
        Access::Open => true,
        Access::Metrics => management.metrics_are_open,
        Access::Read | Access::Write => false,
    };
    let in_path = variables(path.1).map(
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}),
    );
    let in_query = description
        .query
        .iter()
        .map(|(name, meaning, schema)| json!({"name": name, "in": "query", "description": meaning, "schema": schema}));
    let id = match path.0 {
        Base::Root => description.id.to_owned(),
        _ => format!("actuator.{}", description.id),
    };
    let mut operation = json!({
        "operationId": id,
        "summary": description.summary,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": responses(endpoint, path, is_open),
        "security": match (is_open, needs_token) {
            (true, _) => json!([]),
            (false, true) if has_certificates => json!([{"token": []}, {"certificate": []}]),
            (false, true) => json!([{"token": []}]),
            (false, false) => json!([{}, {"token": []}]),
        },
        "x-tollgate-role": match endpoint.access {
            _ if is_open => "none",
            Access::Write => "write",
            Access::Open | Access::Metrics | Access::Read => "read",
        },
    });
    if let Some(schema) = description.body.as_ref().filter(|_| endpoint.method != Method::GET) {
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    operation
}

/// Returns the responses of an endpoint by their status.
fn responses(endpoint: &Endpoint, path: EndpointPath, is_open: bool) -> Map<String, Value> {
    let description = &endpoint.description;
    let (media_type, schema) = &description.success;
    let success = json!({*media_type: {"schema": schema}});
    let mut responses = Map::new();
    responses.insert("200".to_owned(), json!({"description": "Success", "content": success}));
    let access =
        [(401, "A token is missing or unknown"), (403, "Another role, a foreign `Host`, or a page of another origin")];
    let access = access.into_iter().filter(|(status, _)| !is_open || *status == 403);
    let refused = Endpoint::refuses_parameters(path) && !description.further.iter().any(|(status, _)| *status == 400);
    let query = refused.then_some((400, "Unknown query parameter"));
    for (status, meaning) in description.further.iter().copied().chain(query).chain(access) {
        let is_health = status == 503 && endpoint.access == Access::Open;
        let content = match is_health {
            true => success.clone(),
            false => json!({PROBLEM: {"schema": description.problem(status)}}),
        };
        responses.insert(status.to_string(), json!({"description": meaning, "content": content}));
    }
    responses
}

/// Returns the names of the variables of a path.
fn variables(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).map(|name| name.trim_end_matches("..."))
}
