//! OpenAPI 3.1 document of the admin port, made from the table of endpoints.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::admin::api::description::UNKNOWN_PARAMETER;
use crate::admin::api::{Access, Base, ENDPOINTS, Endpoint, Operation, Verb, router};
use crate::admin::config_state::diagnostics_schema;
use crate::admin::limits::schema::batch;
use crate::admin::reply::PROBLEM;
use crate::admin::schema::{ObjectSchema, integer, map_of, meaning, object, text};
use tollgate_config::Management;

/// Returns the document of the endpoints that `management` enables. `needs_token` is false for a
/// client that needs neither a token nor a certificate.
pub(in crate::admin) fn document(management: &Management, needs_token: bool) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for endpoint in ENDPOINTS {
        if let Some(path) = router::path(endpoint, &management.actuator) {
            let methods = paths.entry(template(&path)).or_default();
            methods.insert(endpoint.method.as_str().to_lowercase(), operation(endpoint, management, needs_token));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "On a loopback address and on the Unix socket no token is needed.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`management.tokens`"},
                "certificate": {"type": "mutualTLS", "description": "`management.server.ssl.client-auth`"},
            },
            "schemas": {"Problem": meaning(problem_schema().build(), "RFC 9457")},
        },
    })
}

/// Returns a path in OpenAPI's form: `{name...}` becomes `{name}`.
pub(super) fn template(path: &str) -> String {
    path.replace("...}", "}")
}

/// Returns the JSON Schema of the document itself.
pub(super) fn schema() -> Value {
    let info = object().with("title", text()).with("version", text()).with("description", text()).build();
    let paths = meaning(map_of(&json!({"type": "object"})), "Operations by path and method");
    let components = map_of(&json!({"type": "object"}));
    object().with("openapi", text()).with("info", info).with("paths", paths).with("components", components).build()
}

fn problem_schema() -> ObjectSchema {
    object().with("type", text()).with("title", text()).with("status", integer()).with("detail", text())
}

/// Returns the schema of a problem. Some have more members than RFC 9457 names.
fn problem(operation: Operation, status: u16) -> Value {
    match (operation, status) {
        (Operation::Reload, 422) => problem_schema().maybe("diagnostics", diagnostics_schema()).build(),
        (Operation::ManyLimits, 503) => batch().partly(problem_schema()).build(),
        _ => json!({"$ref": "#/components/schemas/Problem"}),
    }
}

fn operation(endpoint: &Endpoint, management: &Management, needs_token: bool) -> Value {
    let description = endpoint.operation.describe();
    let has_certificates = management.tls.as_ref().is_some_and(|tls| tls.identifies_clients);
    let is_open = match endpoint.access {
        Access::Open => true,
        Access::Metrics => management.metrics_are_open,
        Access::Read | Access::Write => false,
    };
    let mut parameters: Vec<Value> = variables(endpoint.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}))
        .collect();
    parameters.extend(
        description.query.into_iter().map(
            |(name, meaning, schema)| json!({"name": name, "in": "query", "description": meaning, "schema": schema}),
        ),
    );
    let mut responses = Map::new();
    let (media_type, schema) = description.success;
    let success = json!({media_type: {"schema": schema}});
    responses.insert("200".to_owned(), json!({"description": "Success", "content": success}));
    let access =
        [(401, "A token is missing or unknown"), (403, "Another role, a foreign `Host`, or a page of another origin")];
    let access = access.into_iter().filter(|(status, _)| !is_open || *status == 403);
    let refused = endpoint.refuses_parameters() && !description.further.iter().any(|(status, _)| *status == 400);
    let query = refused.then_some((400, UNKNOWN_PARAMETER));
    for (status, meaning) in description.further.into_iter().chain(query).chain(access) {
        let is_health = status == 503 && endpoint.access == Access::Open;
        let content = match is_health {
            true => success.clone(),
            false => json!({PROBLEM: {"schema": problem(endpoint.operation, status)}}),
        };
        responses.insert(status.to_string(), json!({"description": meaning, "content": content}));
    }
    let id = match endpoint.base {
        Base::Root => description.id.to_owned(),
        _ => format!("actuator.{}", description.id),
    };
    let mut operation = json!({
        "operationId": id,
        "summary": description.summary,
        "parameters": parameters,
        "responses": responses,
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
    if let Some(schema) = description.body.filter(|_| endpoint.method != Verb::Get) {
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    operation
}

/// Returns the names of the variables of a path.
fn variables(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).map(|name| name.trim_end_matches("..."))
}
