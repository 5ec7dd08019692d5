//! Dashboard and alerting rules over a loaded gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;

use super::server::Prometheus;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, response};

/// Queries of the panels, with the variables replaced as Grafana does for a short interval.
fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(super::repository("deploy/grafana/tollgate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let variables = [("$__rate_interval", "10s"), ("$__range", "5m"), ("$instance", ".*"), ("$route", ".*")];
    let query = |target: &Value| {
        variables
            .iter()
            .fold(target["expr"].as_str().unwrap().to_owned(), |text, (name, value)| text.replace(name, value))
    };
    targets.map(query).collect()
}

#[test]
fn each_query_of_the_dashboard_returns_data() {
    let redis = Redis::start();
    let upstream = Upstream::start(|_| response(200, &[], b"x"));
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}'}}\naccess-log: {{output: stdout}}\nupstreams: {{pool: {{endpoints: ['{}']}}}}\nroutes:\n\
         - {{id: limited, uri: 'lb://pool', predicates: [Path=/limited], filters: [CircuitBreaker, {{name: RequestRateLimiter, \
         args: {{replenish-rate: 5, burst-capacity: 5, key-resolver: ip}}}}]}}\n",
        redis.url(),
        upstream.uri(),
    ));
    eventually("Redis is connected", || gateway.metric("tollgate_redis_connections", &[]) > 0.0);
    let prometheus = Prometheus::scraping(gateway.admin);
    let ended = Arc::new(AtomicBool::new(false));
    let (stop, address) = (Arc::clone(&ended), gateway.address);
    let load = std::thread::spawn(move || {
        while !stop.load(Relaxed) {
            for path in ["/limited", "/limited", "/none"] {
                crate::support::client::get(address, path);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    let queries = queries();
    assert!(queries.len() >= 25, "{}", queries.len());
    for query in &queries {
        assert!(!query.contains('$'), "an unknown variable: {query}");
        eventually(query, || prometheus.values(query).iter().any(|value| value.is_finite()));
    }
    let denied = "sum(rate(tollgate_limiter_decisions_total{route=\"limited\",verdict=\"denied\"}[10s]))";
    assert!(prometheus.values(denied)[0] > 0.0, "the load is not limited");
    let rules = prometheus.api("rules");
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 20);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    ended.store(true, Relaxed);
    load.join().unwrap();
}
