//! Endpoints of limits and of their overrides.

use serde_json::{Value, json};
use tollgate_limiter::rule::MAX_SAFE_INTEGER;

use crate::admin::api::description::{Description, SLOW_BODY, UNKNOWN_PARAMETER, json, problem_schema};
use crate::admin::api::endpoint::{Endpoint, endpoints};
use crate::admin::expires_in::ExpiresIn;
use crate::admin::limits::{self, overrides, schema};
use crate::admin::schema::{flag, list_of, object, text};

const NO_REDIS: (u16, &str) = (503, "Redis is unreachable");
const NO_CHANGE: (u16, &str) =
    (503, "Redis did not confirm the change: `detail` says that nothing was changed, or that it may have been");

/// `/api/limits`.
pub(super) fn limits() -> Vec<Endpoint> {
    endpoints! {
        GET [Root "/api/limits"] Read Now(|call| limits::list(call.query, call.state)) =>
            json("listRules", "Rules of all routes", list_of(&schema::rule().build()))
                .with("route", "Id of a route; all without it", text())
                .or(&[(400, UNKNOWN_PARAMETER), (404, "Unknown route")]);
        GET [Root "/api/limits/{route}/{key...}"] Read Wait(|call, _| Box::pin(limits::read(call.place(), call.state))) =>
            selected(json("readLimit", "Budget of a key under each rule", schema::budget()), NO_REDIS);
        POST [Root "/api/limits/{route}"] Write Wait(|call, body| Box::pin(limits::read_many(call.place(), body, call.state))) =>
            selected(
                json("manyLimits", "Reads many keys of one rule, and grants tokens of a quota to them", schema::batch().build()),
                (503, "Keys failed; each of `keys` has its state or its `error`, which says whether a grant was made"),
            )
            .with_body(many_keys())
            .or(&[SLOW_BODY])
            .with_problem(503, schema::batch().partly(problem_schema()).build());
        PUT [Root "/api/limits/{route}/{key...}"] Write Wait(|call, body| Box::pin(limits::set(call.place(), body, call.state))) =>
            changed("setLimit", "Sets the budget of a key, or adds to it").with_body(new_budget()).or(&[SLOW_BODY]);
        DELETE [Root "/api/limits/{route}/{key...}"] Write Wait(|call, _| Box::pin(limits::reset(call.place(), call.state))) =>
            changed("resetLimit", "Resets the budget of a key");
    }
}

/// `/api/overrides`.
pub(super) fn overrides() -> Vec<Endpoint> {
    endpoints! {
        PUT [Root "/api/overrides/{route}"] Write Wait(|call, body| Box::pin(overrides::set(call.place(), body, call.caller, call.state))) =>
            set_override("setRuleOverride", "Overrides the limit of every key of a rule for a while");
        PUT [Root "/api/overrides/{route}/{key...}"] Write Wait(|call, body| Box::pin(overrides::set(call.place(), body, call.caller, call.state))) =>
            set_override("setOverride", "Overrides the limit of a key for a while");
        GET [Root "/api/overrides"] Read Now(|call| overrides::list(call.state)) =>
            json("listOverrides", "Temporary overrides of limits", list_of(&schema::listed_override()));
        DELETE [Root "/api/overrides/{route}"] Write Wait(|call, _| Box::pin(overrides::end(call.place(), call.state))) =>
            end_override("endRuleOverride", "Ends the override of every key of a rule");
        DELETE [Root "/api/overrides/{route}/{key...}"] Write Wait(|call, _| Box::pin(overrides::end(call.place(), call.state))) =>
            end_override("endOverride", "Ends the override of a key");
    }
}

/// Returns the schema of a number of tokens.
fn tokens(meaning: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER, "description": meaning})
}

fn new_budget() -> Value {
    let body = object().maybe("rule", text()).maybe("plan", text());
    let mut schema =
        body.maybe("remaining", tokens("Number of remaining tokens")).maybe("grant", tokens("Tokens to add")).closed();
    schema["oneOf"] = json!([{"required": ["remaining"]}, {"required": ["grant"]}]);
    schema
}

fn many_keys() -> Value {
    let key = object().with("key", json!({"type": "string", "minLength": 1})).maybe("grant", tokens("Tokens to add"));
    let keys = json!({"type": "array", "minItems": 1, "maxItems": 256, "items": key.closed()});
    object().maybe("rule", text()).maybe("plan", text()).with("keys", keys).closed()
}

/// Describes an endpoint that changes the budget of a key.
fn changed(id: &'static str, summary: &'static str) -> Description {
    selected(json(id, summary, schema::changed_budget()), NO_CHANGE)
}

/// Adds the choice of a rule, and its errors; `lost` is that of a lost Redis.
fn selected(description: Description, lost: (u16, &'static str)) -> Description {
    description
        .with("rule", "Name or bucket of a rule; all without it", text())
        .with("plan", "Plan of the rule; empty for requests without a plan", text())
        .or(&[
            (400, "Invalid path, query or body, or a change that could mean several rules"),
            (404, "Unknown route, rule or plan"),
            (501, "Limits under `atomicity: lock` must be changed in Redis itself"),
            lost,
        ])
}

fn set_override(id: &'static str, summary: &'static str) -> Description {
    let members = object()
        .maybe("rule", text())
        .maybe("plan", text())
        .with("expires-in", ExpiresIn::schema())
        .maybe("unlimited", flag())
        .maybe("block", flag());
    let description = json(id, summary, schema::new_override()).sends(schema::numbers(members).closed());
    selected(description, NO_CHANGE).or(&[(409, "Too many overrides, or plans that share buckets under equal rules")])
}

fn end_override(id: &'static str, summary: &'static str) -> Description {
    selected(json(id, summary, schema::ended_override()), NO_CHANGE)
        .or(&[(404, "Unknown route, rule, plan or override")])
}
