//! Snapshot of the gateway for the dashboard.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tollgate_limiter::store::redis::BreakerState;

use crate::admin::events::rates::{Current, MAX_ROUTES, Rates, RouteRates, rounded};
use crate::admin::state::AdminState;
use crate::admin::{breakers, config_state, health, top, upstreams};
use tollgate_config::Config;
use tollgate_proxy::state::stores::SharedStores;
use tollgate_telemetry::key_display;
use tollgate_telemetry::top_keys::{CountedVerdict, Query, Top};

/// Maximum number of upstreams, and of circuit breakers.
const MAX_UPSTREAMS: usize = 100;
/// Maximum number of rules with their top keys, for each verdict.
const MAX_RULES: usize = 20;
/// Keys for each rule.
const KEYS: usize = 10;

/// Takes a snapshot, and adds its totals to `rates`.
pub(super) async fn take(state: &AdminState, rates: &mut Rates) -> Value {
    rates.add(Instant::now(), state.metrics.totals());
    let mut tops = Vec::with_capacity(CountedVerdict::ALL.len());
    for verdict in &CountedVerdict::ALL {
        let verdicts = std::slice::from_ref(verdict);
        tops.push((*verdict, state.top.read(&Query { verdicts, route: None, rule: None, limit: KEYS }).await));
    }
    let config = state.config.load_full();
    let readiness = health::readiness(state);
    json!({
        "at": milliseconds(SystemTime::now()),
        "started": milliseconds(state.started),
        "version": env!("CARGO_PKG_VERSION"),
        "status": readiness.status,
        "reason": readiness.reason,
        "connections": state.connections.open(),
        "workers": config.server.workers.get(),
        "all": all(rates.current()),
        "routes": routes(&config, rates.current()),
        "route-count": config.routes.len(),
        "redis": redis(&state.stores),
        "upstreams": upstreams::describe_all(state).iter().take(MAX_UPSTREAMS).collect::<Vec<_>>(),
        "breakers": breakers::describe_all(state).iter().take(MAX_UPSTREAMS).collect::<Vec<_>>(),
        "config": config_state::summary(state),
        "reloads": state.reloads.load(Relaxed),
        "top": describe_top(&tops),
    })
}

fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn all(current: &Current) -> Value {
    let mut described = describe(&current.all);
    described["unrouted"] = rounded(current.unrouted);
    described
}

fn routes(config: &Config, current: &Current) -> Value {
    let none = RouteRates::default();
    let route = |route: &tollgate_config::Route| {
        let mut described = json!({"id": &*route.id});
        let rates = describe(current.routes.get(&route.id).unwrap_or(&none));
        if let (Value::Object(described), Value::Object(rates)) = (&mut described, rates) {
            described.extend(rates);
        }
        described
    };
    config.routes.iter().take(MAX_ROUTES).map(route).collect()
}

fn describe(rates: &RouteRates) -> Value {
    let quantile = |quantile| rates.latency.quantile_ms(quantile).map_or(Value::Null, rounded);
    json!({
        "requests": rounded(rates.requests),
        "errors": rounded(rates.errors),
        "allowed": rounded(rates.allowed),
        "denied": rounded(rates.denied),
        "observed": rounded(rates.observed),
        "degraded": rounded(rates.degraded),
        "p50": quantile(0.5),
        "p90": quantile(0.9),
        "p99": quantile(0.99),
    })
}

/// Returns the state of Redis; null if limits are kept in memory.
fn redis(stores: &SharedStores) -> Value {
    let clients = stores.redis();
    if clients.is_empty() {
        return Value::Null;
    }
    let mut open: Vec<&str> = clients
        .iter()
        .flat_map(|client| &client.nodes)
        .filter(|node| node.breaker == BreakerState::Open)
        .map(|node| &*node.name)
        .collect();
    open.sort_unstable();
    open.dedup();
    json!({
        "workers": clients.len(),
        "connected": clients.iter().filter(|client| client.connected()).count(),
        "breakers-open": open,
        "error": clients.iter().find_map(|client| client.last_error()),
        "gateways": stores.gateways().counted(),
    })
}

fn describe_top(tops: &[(CountedVerdict, Top)]) -> Value {
    let mut described = Map::new();
    described.insert("hashed".to_owned(), json!(key_display::is_hashed()));
    let complete = tops.iter().all(|(_, top)| top.is_complete);
    described.insert("complete".to_owned(), json!(complete));
    let seconds = tops.iter().map(|(_, top)| top.covered.as_secs()).max();
    described.insert("seconds".to_owned(), json!(seconds));
    for (verdict, top) in tops {
        let rules: Vec<_> = top.rules.iter().take(MAX_RULES).map(top::describe).collect();
        described.insert(verdict.as_str().to_owned(), json!(rules));
    }
    Value::Object(described)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_have_few_digits() {
        for (number, text) in
            [(0.0, "0"), (0.004, "0"), (1.005, "1"), (1.236, "1.24"), (12.34, "12.3"), (1234.5, "1235"), (99.99, "100")]
        {
            assert_eq!(rounded(number).to_string(), text, "{number}");
        }
    }

    #[test]
    fn a_snapshot_names_each_route_in_the_order_of_the_configuration() {
        let rates = RouteRates { requests: 12.0, denied: 3.0, ..RouteRates::default() };
        let current = Current { routes: [("b".into(), rates)].into(), ..Current::default() };
        let yaml =
            "routes:\n- {id: b, uri: 'echo:', predicates: [Path=/b]}\n- {id: a, uri: 'echo:', predicates: [Path=/a]}";
        let loaded = tollgate_config::parse("test", yaml, &|_| None).map_err(|report| report.render(false));
        let config = loaded.map(|loaded| loaded.config).unwrap();
        let listed = routes(&config, &current);
        assert_eq!(
            (&listed[0]["id"], &listed[0]["requests"], &listed[0]["denied"]),
            (&json!("b"), &json!(12), &json!(3))
        );
        assert_eq!(
            (&listed[1]["id"], &listed[1]["requests"], &listed[1]["p50"]),
            (&json!("a"), &json!(0), &Value::Null)
        );
    }
}
