//! JSON Schemas of rules, of budgets of keys, and of overrides.

use serde_json::Value;
use tollgate_limiter::rule::{Algorithm, NumberKind, NumberSpec};

use crate::admin::schema::{ObjectSchema, count, flag, list_of, meaning, number, object, one_of, or_null, text, time};

/// Returns the schema of a rule.
pub(in crate::admin) fn rule() -> ObjectSchema {
    let algorithms: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.as_str()).collect();
    object()
        .with("route", text())
        .with("rule", text())
        .maybe("plan", text())
        .with("key-resolver", text())
        .with("algorithm", one_of(&algorithms))
        .with("capacity", meaning(count(), "Largest number of tokens"))
        .with("limit", meaning(text(), "The rule in words"))
        .with("numbers", numbers(object()).build())
        .with("mode", one_of(&["enforce", "observe", "off"]))
        .maybe("enforce-percent", meaning(number(), "Percentage of the keys for which the rule is enforced"))
}

/// Returns the schema of the budget of a key under each rule.
pub(in crate::admin) fn budget() -> Value {
    budget_of(limit())
}

/// Returns the schema of the budget of a key after a change.
pub(in crate::admin) fn changed_budget() -> Value {
    let ends =
        meaning(count(), "Time after which no gateway uses an earlier lease on the key, if a limiter has leases");
    budget_of(limit().maybe("leases-end-within-ms", ends))
}

/// Returns the schema of the budget of a key under one rule.
fn limit() -> ObjectSchema {
    rule()
        .maybe("override", effect())
        .with("store", store())
        .with("remaining", meaning(count(), "Remaining tokens"))
        .with("reset-after-ms", meaning(count(), "Time until all tokens are back"))
        .with("retry-after-ms", meaning(or_null(&count()), "0 if a request passes now; null if no time is known"))
}

fn budget_of(limit: ObjectSchema) -> Value {
    object()
        .with("route", text())
        .with("key", text())
        .with("limits", list_of(&limit.build()))
        .maybe("plan", meaning(or_null(&text()), "Plan of the key, if the limiter has plans by key"))
        .build()
}

/// Returns the schema of many keys of one rule.
pub(in crate::admin) fn batch() -> ObjectSchema {
    let key = object()
        .with("key", text())
        .maybe("remaining", meaning(count(), "Remaining tokens"))
        .maybe("reset-after-ms", meaning(count(), "Time until all tokens are back"))
        .maybe("error", meaning(text(), "Reason if the key has no state"))
        .maybe("override", effect());
    rule().with("store", store()).with("keys", list_of(&key.build()))
}

/// Returns the schema of a listed override.
pub(in crate::admin) fn listed_override() -> Value {
    object()
        .with("route", text())
        .with("rule", text())
        .maybe("plan", text())
        .maybe("key", meaning(text(), "Absent for an override of every key"))
        .with("override", change())
        .with("in-effect", meaning(flag(), "False if the rule is no longer configured"))
        .with("by", meaning(text(), "Caller who set it"))
        .with("expires-in-ms", count())
        .with("expires-at", time())
        .build()
}

/// Returns the schema of an override that has been set.
pub(in crate::admin) fn new_override() -> Value {
    rule().maybe("key", text()).with("override", change()).with("expires-in-ms", count()).build()
}

/// Returns the schema of an override that has ended. One whose rule is no longer configured has its names only.
pub(in crate::admin) fn ended_override() -> Value {
    rule().partly(object().with("route", text()).with("rule", text()).maybe("key", text())).build()
}

/// Adds the numbers of rules that can be overridden.
pub(in crate::admin) fn numbers(schema: ObjectSchema) -> ObjectSchema {
    NumberSpec::all().fold(schema, |schema, spec| match spec.kind {
        NumberKind::Count | NumberKind::Rate => schema.maybe(spec.name, count()),
        NumberKind::Time => schema.maybe(spec.name, text()),
    })
}

/// Returns the schema of an override as the members of a body.
fn change() -> Value {
    numbers(object()).maybe("unlimited", flag()).maybe("block", flag()).build()
}

/// Returns the schema of the rule in effect for an overridden key.
fn effect() -> Value {
    let effect = object()
        .maybe("rate", meaning(count(), "Tokens in each period or window"))
        .maybe("capacity", count())
        .maybe("unlimited", flag())
        .maybe("block", flag())
        .with("expires-in-ms", count());
    meaning(effect.build(), "Temporary override of the rule")
}

fn store() -> Value {
    one_of(&["memory", "redis"])
}
