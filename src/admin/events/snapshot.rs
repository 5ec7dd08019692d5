//! Snapshot of the gateway for the dashboard.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::time::Instant;
use tollgate_limiter::store::redis::BreakerState;

use crate::admin::admin_state::AdminState;
use crate::admin::breakers::{self, BreakerReply};
use crate::admin::config_state::ConfigSummary;
use crate::admin::events::Event;
use crate::admin::events::rates::{Current, MAX_ROUTES, Rates, Rounded, RouteRates};
use crate::admin::health::{self, Readiness, RedisDetails};
use crate::admin::top::{self, TopRule};
use crate::admin::upstreams::{self, UpstreamReply};
use tollgate_config::Config;
use tollgate_telemetry::key_display;
use tollgate_telemetry::top_keys::{CountedVerdict, Query, Top};

/// Maximum number of upstreams, and of circuit breakers.
const MAX_UPSTREAMS: usize = 100;
/// Maximum number of rules with their top keys, for each verdict.
const MAX_RULES: usize = 20;
/// Keys for each rule.
const KEYS: usize = 10;

/// Snapshot of the gateway.
#[reply]
pub(in crate::admin) struct Snapshot<'s> {
    /// Time in milliseconds since 1970.
    at: u64,
    /// Start of the process in milliseconds since 1970.
    started: u64,
    version: &'static str,
    status: health::Status,
    /// Null if the gateway is ready.
    reason: Option<&'static str>,
    /// Open client connections.
    connections: u64,
    workers: usize,
    all: AllRates,
    /// The first routes of the configuration.
    routes: Vec<RouteSnapshot<'s>>,
    route_count: usize,
    /// Null if limits are kept in memory.
    redis: Option<RedisSnapshot>,
    upstreams: Vec<UpstreamReply>,
    breakers: Vec<BreakerReply>,
    config: ConfigSummary<'s>,
    reloads: u64,
    top: TopSnapshot<'s>,
}

/// Rates of all routes.
#[reply]
struct AllRates {
    #[serde(flatten)]
    rates: RouteRates,
    /// Requests without a route.
    unrouted: Rounded,
}

#[reply]
struct RouteSnapshot<'s> {
    id: &'s str,
    #[serde(flatten)]
    rates: RouteRates,
}

/// Connections to Redis.
#[reply]
struct RedisSnapshot {
    #[serde(flatten)]
    connections: RedisDetails,
    /// Servers whose circuit breaker is open.
    breakers_open: Vec<String>,
    /// Live gateways, if a limiter counts them.
    gateways: Option<NonZeroU32>,
}

/// Most frequent keys of each rule, by verdict.
#[reply]
struct TopSnapshot<'s> {
    hashed: bool,
    complete: bool,
    /// Time that the counts cover.
    seconds: Option<u64>,
    denied: Vec<TopRule<'s>>,
    observed: Vec<TopRule<'s>>,
    allowed: Vec<TopRule<'s>>,
}

/// Takes a snapshot, and adds its totals to `rates`. Returns its event.
pub(super) async fn take(state: &AdminState, rates: &mut Rates) -> Bytes {
    rates.add(Instant::now(), state.metrics.totals());
    let [denied, observed, allowed] = [
        top(state, &[CountedVerdict::Denied]).await,
        top(state, &[CountedVerdict::Observed]).await,
        top(state, &[CountedVerdict::Allowed]).await,
    ];
    let (config, config_state) = (state.config.load_full(), state.config_state.load());
    let Readiness { status, reason } = health::readiness(state);
    let snapshot = Snapshot {
        at: milliseconds(SystemTime::now()),
        started: milliseconds(state.started),
        version: env!("CARGO_PKG_VERSION"),
        status,
        reason,
        connections: state.connections.open(),
        workers: config.server.workers().get(),
        all: AllRates { rates: rates.current().all.clone(), unrouted: rates.current().unrouted },
        routes: routes(&config, rates.current()),
        route_count: config.routes.len(),
        redis: RedisSnapshot::of(state),
        upstreams: upstreams::describe_all(state).into_iter().take(MAX_UPSTREAMS).collect(),
        breakers: breakers::describe_all(state).into_iter().take(MAX_UPSTREAMS).collect(),
        config: ConfigSummary::new(&config_state, state),
        reloads: state.reloads.load(Relaxed),
        top: TopSnapshot::new(&denied, &observed, &allowed),
    };
    Event::Snapshot(&snapshot).text()
}

fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

async fn top(state: &AdminState, verdicts: &'static [CountedVerdict]) -> Top {
    state.top.read(&Query { verdicts, route: None, rule: None, limit: KEYS }).await
}

fn routes<'c>(config: &'c Config, current: &Current) -> Vec<RouteSnapshot<'c>> {
    let routes = config.routes.iter().take(MAX_ROUTES).map(|route| RouteSnapshot {
        id: &route.id,
        rates: current.routes.get(&route.id).cloned().unwrap_or_default(),
    });
    routes.collect()
}

impl RedisSnapshot {
    /// Describes Redis; `None` if limits are kept in memory.
    fn of(state: &AdminState) -> Option<Self> {
        let connections = health::redis(state)?.details;
        let clients = state.stores.redis();
        let nodes = clients.iter().flat_map(|client| &client.nodes);
        let open = nodes.filter(|node| node.breaker == BreakerState::Open).map(|node| node.name.to_string());
        let mut breakers_open: Vec<String> = open.collect();
        breakers_open.sort_unstable();
        breakers_open.dedup();
        Some(Self { connections, breakers_open, gateways: state.stores.gateways.counted() })
    }
}

impl<'s> TopSnapshot<'s> {
    fn new(denied: &'s Top, observed: &'s Top, allowed: &'s Top) -> Self {
        let rules = |top: &'s Top| top.rules.iter().take(MAX_RULES).map(top::describe).collect();
        let tops = [denied, observed, allowed];
        Self {
            hashed: key_display::is_hashed(),
            complete: tops.iter().all(|top| top.is_complete),
            seconds: tops.iter().map(|top| top.covered.as_secs()).max(),
            denied: rules(denied),
            observed: rules(observed),
            allowed: rules(allowed),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn numbers_have_few_digits() {
        for (number, text) in
            [(0.0, "0"), (0.004, "0"), (1.005, "1"), (1.236, "1.24"), (12.34, "12.3"), (1234.5, "1235"), (99.99, "100")]
        {
            assert_eq!(serde_json::to_string(&Rounded(number)).unwrap(), text, "{number}");
        }
    }

    #[test]
    fn a_snapshot_names_each_route_in_the_order_of_the_configuration() {
        let rates = RouteRates { requests: Rounded(12.0), denied: Rounded(3.0), ..RouteRates::default() };
        let current = Current { routes: [("b".into(), rates)].into(), ..Current::default() };
        let yaml =
            "routes:\n- {id: b, uri: 'echo:', predicates: [Path=/b]}\n- {id: a, uri: 'echo:', predicates: [Path=/a]}";
        let loaded = tollgate_config::parse("test", yaml, &|_| None).map_err(|report| report.render(false));
        let config = loaded.map(|loaded| loaded.config).unwrap();
        let listed = serde_json::to_value(routes(&config, &current)).unwrap();
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
