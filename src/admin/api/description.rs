//! Descriptions of the endpoints, for the OpenAPI document. The match over all operations leaves out none.

use serde_json::{Value, json};
use tollgate_limiter::rule::{MAX_SAFE_INTEGER, NumberKind, NumberSpec};

use crate::admin::api::Operation;
use crate::admin::expires_in::ExpiresIn;
use crate::admin::upstreams;

/// Description of one endpoint.
#[derive(Debug)]
pub(super) struct Description {
    /// Name of the operation, unique.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// Query parameters.
    pub(super) query: Vec<(&'static str, &'static str, Value)>,
    /// Schema of the body; it is JSON.
    pub(super) body: Option<Value>,
    /// Media type and schema of the response with status 200.
    pub(super) success: (&'static str, Value),
    /// Further statuses with their meaning; 503 of readiness is JSON, all others are problems.
    pub(super) further: Vec<(u16, &'static str)>,
}

const JSON: &str = "application/json";
pub(super) const UNKNOWN_PARAMETER: &str = "Unknown query parameter";
const NO_ROUTE: (u16, &str) = (404, "Unknown route, rule or plan");
const NO_REDIS: (u16, &str) = (503, "Redis is unreachable");
const NO_CHANGE: (u16, &str) =
    (503, "Redis did not confirm the change: `detail` says that nothing was changed, or that it may have been");
const SLOW_BODY: (u16, &str) = (408, "The body did not arrive in time");
const LOCKED: (u16, &str) = (501, "Limits under `atomicity: lock` must be changed in Redis itself");
const ENDING: (u16, &str) = (503, "The gateway is shutting down");

impl Operation {
    /// Returns the description of the operation.
    pub(super) fn describe(self) -> Description {
        match self {
            Self::Dashboard => text("dashboard", "Dashboard", "text/html"),
            Self::DashboardFile => text("dashboardFile", "A file of the dashboard", "*/*").or(&[(404, "Unknown file")]),
            Self::Events => text(
                "events",
                "A snapshot of the gateway each second, as server-sent events without end",
                "text/event-stream",
            )
            .or(&[(503, "All places of viewers are taken, or the gateway is shutting down")]),
            Self::Live => object("live", "Reports that the process responds", &["status"]),
            Self::Ready => {
                object("ready", "Reports readiness", &["status"]).or(&[(503, "Not ready: `reason` says why")])
            }
            Self::Health => {
                object("health", "Reports readiness, with components if the configuration shows them", &["status"])
                    .or(&[(503, "Not ready")])
            }
            Self::Metrics => {
                text("metrics", "Metrics as Prometheus text, or as OpenMetrics if `Accept` prefers it", "text/plain")
            }
            Self::OpenApi => object("openapi", "This document", &["openapi", "info", "paths"]),
            Self::Rules => {
                list("listRules", "Rules of all routes", &["route", "rule", "key-resolver", "algorithm", "capacity", "limit", "numbers", "mode"])
                    .with("route", "Id of a route; all without it", text_schema())
                    .or(&[(400, UNKNOWN_PARAMETER), (404, "Unknown route")])
            }
            Self::ReadLimit => limit("readLimit", "Budget of a key under each rule", NO_REDIS),
            Self::ResetLimit => limit("resetLimit", "Resets the budget of a key", NO_CHANGE),
            Self::ManyLimits => Description {
                body: Some(json!({
                    "type": "object",
                    "properties": {
                        "rule": {"type": "string"},
                        "plan": {"type": "string"},
                        "keys": {
                            "type": "array",
                            "minItems": 1,
                            "maxItems": 256,
                            "items": {
                                "type": "object",
                                "properties": {
                                    "key": {"type": "string", "minLength": 1},
                                    "grant": tokens("Tokens to add"),
                                },
                                "required": ["key"],
                                "additionalProperties": false,
                            },
                        },
                    },
                    "required": ["keys"],
                    "additionalProperties": false,
                })),
                ..selected(object(
                    "manyLimits",
                    "Reads many keys of one rule, and grants tokens of a quota to them",
                    &["route", "store", "keys"],
                ), (503, "Keys failed; each of `keys` has its state or its `error`, which says whether a grant was made"))
            }
            .or(&[SLOW_BODY]),
            Self::SetLimit => Description {
                query: Vec::new(),
                body: Some(json!({
                    "type": "object",
                    "properties": {
                        "rule": {"type": "string"},
                        "plan": {"type": "string"},
                        "remaining": tokens("Number of remaining tokens"),
                        "grant": tokens("Tokens to add"),
                    },
                    "oneOf": [{"required": ["remaining"]}, {"required": ["grant"]}],
                    "additionalProperties": false,
                })),
                ..limit("setLimit", "Sets the budget of a key, or adds to it", NO_CHANGE)
            }
            .or(&[SLOW_BODY]),
            Self::Overrides => {
                list("listOverrides", "Temporary overrides of limits", &["route", "rule", "override", "expires-in-ms"])
            }
            Self::Override => set_override("setOverride", "Overrides the limit of a key for a while"),
            Self::OverrideAll => set_override("setRuleOverride", "Overrides the limit of every key of a rule for a while"),
            Self::EndOverride => end_override("endOverride", "Ends the override of a key"),
            Self::EndOverrideAll => end_override("endRuleOverride", "Ends the override of every key of a rule"),
            Self::Top => object(
                "top",
                "Keys with the most requests of a verdict, for each rule",
                &["verdict", "seconds", "complete", "hashed", "rules"],
            )
            .with(
                "verdict",
                "Verdict of the requests to count",
                json!({"enum": ["denied", "observed", "allowed", "asked"], "default": "denied"}),
            )
            .with("route", "Id of a route; all without it", text_schema())
            .with("rule", "Name of a rule; all without it", text_schema())
            .with(
                "limit",
                "Keys for each rule",
                json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10}),
            )
            .or(&[(400, "Invalid query parameter")]),
            Self::Explain => object(
                "explain",
                "Dry run of a request: route, filters, keys with their state, and the request to the upstream",
                &["passed-over"],
            )
            .with("method", "Method", json!({"type": "string", "default": "GET"}))
            .with("url", "Path with query, or URL", json!({"type": "string", "default": "/"}))
            .with("header", "Header field as `Name: value`", json!({"type": "array", "items": {"type": "string"}}))
            .with("peer", "Address of the peer", json!({"type": "string", "default": "127.0.0.1"}))
            .or(&[(400, "Invalid query parameter")]),
            Self::Config => object(
                "config",
                "File, hash, time and warnings of the running configuration",
                &["file", "hash", "loaded-at", "warnings"],
            ),
            Self::Reload => {
                object("reload", "Reads the configuration again and applies it", &["hash", "needs-restart", "warnings"])
                    .or(&[
                        (409, "The built-in configuration has no file"),
                        (422, "The file has errors, listed in `diagnostics`; the running configuration stays"),
                        ENDING,
                    ])
            }
            Self::Upstreams => described("listUpstreams", "Upstreams with their endpoints", (JSON, upstreams::schema())),
            Self::Breakers => list("listBreakers", "Circuit breakers with their states", &["name", "state", "calls"]),
            Self::Drain => object("drainEndpoint", "Drains an endpoint for a while: it gets no new request", &["name", "endpoints"])
                .sends(json!({"type": "object", "required": ["expires-in"], "properties": {"expires-in": ExpiresIn::schema(), "allow-last": {"type": "boolean"}}, "additionalProperties": false}))
                .or(&[(404, "Unknown upstream or endpoint"), (409, "No other endpoint gets requests")]),
            Self::EndDrain => object("endDrain", "Ends the draining of an endpoint", &["name", "endpoints"])
                .or(&[(404, "Unknown upstream or endpoint")]),
            Self::ForceBreaker => object("forceBreaker", "Forces the state of a circuit breaker for a while", &["name", "state", "calls"])
                .sends(json!({"type": "object", "required": ["state", "expires-in"], "properties": {"state": {"enum": ["open", "closed"]}, "expires-in": ExpiresIn::schema()}, "additionalProperties": false}))
                .or(&[(404, "Unknown circuit breaker")]),
            Self::EndForce => object("endForcedState", "Ends the forced state of a circuit breaker", &["name", "state", "calls"])
                .or(&[(404, "Unknown circuit breaker")]),
            Self::Index => object("actuator", "Spring Boot's list of endpoints", &["_links"]),
            Self::GatewayIndex => list("gateway", "Spring's list of gateway endpoints", &["href", "methods"]),
            Self::Routes => list("listRoutes", "Routes in effect, in matching order", &["route_id", "uri"]),
            Self::Route => object("readRoute", "One route", &["route_id", "uri"]).or(&[(404, "Unknown route")]),
            Self::CombinedFilters => {
                object("combinedFilters", "Filters of a route with their positions", &[]).or(&[(404, "Unknown route")])
            }
            Self::RouteDefinitions => list("routeDefinitions", "Routes as in the file", &["id", "uri"]),
            Self::RouteFilters => object("routeFilters", "Names of all filters", &[]),
            Self::RoutePredicates => object("routePredicates", "Names of all predicates", &[]),
            Self::GlobalFilters => object("globalFilters", "Spring's global filters: none", &[]),
            Self::Refresh => text("refresh", "Reloads the configuration, as in Spring", "text/plain")
                .or(&[(500, "The configuration was not applied"), ENDING]),
        }
    }
}

impl Description {
    /// Adds a query parameter.
    fn with(mut self, name: &'static str, meaning: &'static str, schema: Value) -> Self {
        self.query.push((name, meaning, schema));
        self
    }

    /// Adds the schema of a body.
    fn sends(self, schema: Value) -> Self {
        Self { body: Some(schema), ..self }.or(&[(400, "Invalid body"), SLOW_BODY])
    }

    /// Adds statuses.
    fn or(mut self, further: &[(u16, &'static str)]) -> Self {
        self.further.extend(further);
        self
    }
}

/// Returns the schema of a number of tokens.
fn tokens(meaning: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER, "description": meaning})
}

fn text_schema() -> Value {
    json!({"type": "string"})
}

fn described(id: &'static str, summary: &'static str, success: (&'static str, Value)) -> Description {
    Description { id, summary, query: Vec::new(), body: None, success, further: Vec::new() }
}

/// Describes an endpoint that returns an object with these members, and others.
fn object(id: &'static str, summary: &'static str, members: &[&str]) -> Description {
    described(id, summary, (JSON, json!({"type": "object", "required": members})))
}

/// Describes an endpoint that returns a list of objects with these members, and others.
fn list(id: &'static str, summary: &'static str, members: &[&str]) -> Description {
    described(id, summary, (JSON, json!({"type": "array", "items": {"type": "object", "required": members}})))
}

fn text(id: &'static str, summary: &'static str, media_type: &'static str) -> Description {
    described(id, summary, (media_type, text_schema()))
}

/// Describes an endpoint that returns the budget of a key.
fn limit(id: &'static str, summary: &'static str, lost: (u16, &'static str)) -> Description {
    selected(object(id, summary, &["route", "key", "limits"]), lost)
}

/// Adds the choice of a rule, and its errors; `lost` is that of a lost Redis.
fn selected(description: Description, lost: (u16, &'static str)) -> Description {
    description
        .with("rule", "Name or bucket of a rule; all without it", text_schema())
        .with("plan", "Plan of the rule; empty for requests without a plan", text_schema())
        .or(&[(400, "Invalid path, query or body, or a change that could mean several rules"), NO_ROUTE, LOCKED, lost])
}

fn set_override(id: &'static str, summary: &'static str) -> Description {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "rule": text_schema(),
            "plan": text_schema(),
            "expires-in": ExpiresIn::schema(),
            "unlimited": {"type": "boolean"},
            "block": {"type": "boolean"},
        },
        "required": ["expires-in"],
        "additionalProperties": false,
    });
    for number in NumberSpec::all() {
        schema["properties"][number.name] = match number.kind {
            NumberKind::Count | NumberKind::Rate => json!({"type": "integer", "minimum": 0}),
            NumberKind::Time => json!({"type": "string"}),
        };
    }
    let description = object(id, summary, &["route", "rule", "override", "expires-in-ms"]).sends(schema);
    selected(description, NO_CHANGE).or(&[(409, "Too many overrides, or plans that share buckets under equal rules")])
}

fn end_override(id: &'static str, summary: &'static str) -> Description {
    selected(object(id, summary, &["route", "rule"]), NO_CHANGE).or(&[(404, "Unknown route, rule, plan or override")])
}
