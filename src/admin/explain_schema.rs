//! JSON Schema of dry runs.

use serde_json::Value;

use crate::admin::schema::{
    ObjectSchema, count, flag, integer, list_of, map_of, meaning, object, one_of, or_null, pair_of, text, time,
};
use tollgate_proxy::upstream::balance::KnownState;

/// Returns the schema of a dry run.
pub(super) fn schema() -> Value {
    let skipped = object()
        .with("route", text())
        .with("predicate", meaning(text(), "First predicate that does not match"))
        .with("seen", meaning(text(), "Value that the predicate examined"));
    object()
        .with("refused", meaning(or_null(&text()), "Reason if the request is refused before routing"))
        .maybe("own-endpoint", meaning(flag(), "True if an endpoint of the gateway itself answers"))
        .with("passed-over", meaning(list_of(&skipped.build()), "Routes that do not match"))
        .with("route", or_null(&route()))
        .maybe("lacks-locator-routes", flag())
        .maybe("cors", cors())
        .build()
}

fn cors() -> Value {
    let verdicts = ["no-policy", "allowed", "preflight", "refused-origin", "refused-method", "refused-headers"];
    object()
        .with("policy", meaning(or_null(&text()), "Path pattern of the policy"))
        .with("verdict", one_of(&verdicts))
        .with("headers", map_of(&list_of(&text())))
        .build()
}

fn route() -> Value {
    let forwarded = object().with("method", text()).with("url", text()).with("headers", map_of(&list_of(&text())));
    let answered = object().with("status", integer()).with("reason", text());
    object()
        .with("id", text())
        .with("uri", text())
        .with("predicates", list_of(&text()))
        .with("variables", map_of(&text()))
        .with("filters", list_of(&filter()))
        .with(
            "forwarded",
            meaning(or_null(&forwarded.build()), "Request to the upstream; null if the gateway responds"),
        )
        .with("answered", meaning(or_null(&answered.build()), "Response of the gateway itself"))
        .maybe("live", live_route())
        .build()
}

fn filter() -> Value {
    let counted = object()
        .with("rule", text())
        .with("scope", text())
        .with("key-id", text())
        .with("cost", count())
        .with("observed", flag())
        .with("redis-keys", list_of(&text()))
        .maybe("live", live_limit());
    object()
        .with("filter", text())
        .maybe("arguments", meaning(list_of(&pair_of(&text())), "Names with values"))
        .maybe("counted", list_of(&counted.build()))
        .build()
}

fn live_limit() -> Value {
    object()
        .with("remaining", meaning(or_null(&count()), "Null if it cannot be read"))
        .with("capacity", count())
        .with("is-exceeded", flag())
        .with("retry-after-ms", or_null(&count()))
        .with("reset-after-ms", or_null(&count()))
        .maybe("override", one_of(&["numbers", "unlimited", "block"]))
        .maybe("rule", meaning(text(), "Rule with the numbers of the override"))
        .maybe("problem", meaning(text(), "Reason if the state cannot be read"))
        .build()
}

fn live_route() -> Value {
    let endpoint: ObjectSchema = object()
        .with("endpoint", text())
        .with("state", one_of(&KnownState::ALL.map(KnownState::as_str)))
        .with("in-flight", count())
        .with("consecutive-failures", count())
        .maybe("last-failure", object().with("at", time()).with("error", text()).build())
        .maybe("check-error", meaning(text(), "Reason of the latest health check, while it is down"));
    let breaker = object().with("name", text()).with("state", text());
    object().with("endpoints", list_of(&endpoint.build())).with("breakers", list_of(&breaker.build())).build()
}
