//! Metrics and log lines about Redis, and gateways that count each other.

use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

fn yaml(url: &str, arguments: &str) -> String {
    format!(
        "redis: {{url: '{url}'}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: \
         RequestRateLimiter, args: {{key-resolver: 'header:x-key', {arguments}}}}}]}}]\n"
    )
}

fn ask(gateway: &Gateway, key: &str) -> u16 {
    gateway.connect().request("GET", "/a", &[("x-key", key)], b"").status
}

#[test]
fn metrics_show_call_latencies_and_server_statistics() {
    let redis = Redis::start_with(&["--maxmemory", "64mb"]);
    let gateway = Gateway::start(&yaml(&redis.url(), "replenish-rate: 1, burst-capacity: 100"));
    for _ in 0..5 {
        assert_eq!(ask(&gateway, "k"), 200);
    }
    let node = format!("node=\"{}\"", redis.address);
    let figure = |name: &str| gateway.metric(name, &[&node]);
    eventually("INFO was called", || figure("tollgate_redis_max_memory_bytes") == 67_108_864.0);
    assert!(figure("tollgate_redis_used_memory_bytes") > 100_000.0);
    assert!(figure("tollgate_redis_cpu_seconds_total") > 0.0 && figure("tollgate_redis_clients") >= 1.0);
    assert_eq!((figure("tollgate_redis_may_evict"), figure("tollgate_redis_evicted_keys_total")), (0.0, 0.0));
    assert_eq!(figure("tollgate_redis_connections"), 1.0);
    assert_eq!(gateway.metric("tollgate_redis_connects_total", &[]), 1.0);
    assert_eq!(gateway.metric("tollgate_redis_seconds_count", &["operation=\"decide\""]), 5.0);
    assert_eq!(gateway.metric("tollgate_redis_seconds_bucket", &["operation=\"decide\"", "le=\"+Inf\""]), 5.0);
    assert!(gateway.metric("tollgate_redis_seconds_sum", &["operation=\"decide\""]) > 0.0);
    assert!(gateway.metric("tollgate_redis_seconds_count", &["operation=\"info\""]) >= 1.0);
    assert!(!gateway.log().contains("may evict counters"));
}

#[test]
fn an_eviction_policy_that_drops_counters_is_logged() {
    let redis = Redis::start_with(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    let gateway = Gateway::start(&yaml(&redis.url(), "replenish-rate: 1, burst-capacity: 100"));
    let warning = gateway.logged("maxmemory-policy noeviction");
    assert!(warning.contains("allkeys-lru") && warning.contains(&redis.address.to_string()), "{warning}");
    assert_eq!(gateway.metric("tollgate_redis_may_evict", &[]), 1.0);
}

#[test]
fn without_permission_for_info_a_warning_is_logged_and_limits_work() {
    let redis = Redis::start();
    assert_eq!(redis.cli(&["ACL", "SETUSER", "default", "-info"]), "OK");
    let gateway = Gateway::start(&yaml(&redis.url(), "replenish-rate: 1, burst-capacity: 1"));
    gateway.logged("redis refuses INFO");
    assert_eq!([ask(&gateway, "k"), ask(&gateway, "k")], [200, 429]);
    assert!(!gateway.admin("/metrics").text().contains("tollgate_redis_used_memory_bytes{"));
    assert_eq!(gateway.metric("tollgate_breaker_state", &[]), 0.0);
    assert_eq!(gateway.metric("tollgate_redis_errors_total", &[]), 0.0);
}

#[test]
fn opening_and_closing_of_the_redis_circuit_breaker_are_logged() {
    let mut redis = Redis::start();
    let yaml =
        yaml(&redis.url(), "replenish-rate: 1, burst-capacity: 1000") + "server: {address: 127.0.0.1, workers: 2}\n";
    let gateway = Gateway::start(&yaml);
    assert_eq!(ask(&gateway, "k"), 200);
    redis.kill();
    eventually("requests find out", || {
        ask(&gateway, "k");
        gateway.metric("tollgate_breaker_state", &[&redis.address.to_string()]) == 1.0
    });
    let line = gateway.logged("redis circuit breaker opened");
    assert!(line.contains(&redis.address.to_string()) && line.contains("reason=\"disconnected\""), "{line}");
    redis.restart();
    eventually("requests find out again", || {
        ask(&gateway, "k");
        gateway.metric("tollgate_breaker_state", &[]) == 0.0
    });
    gateway.logged("redis circuit breaker closed");
    assert_eq!(gateway.log().matches("redis circuit breaker opened").count(), 1, "once for all workers");
}

#[test]
fn counted_gateways_divide_a_limit_while_redis_is_down() {
    let mut redis = Redis::start();
    let yaml =
        yaml(&redis.url(), "algorithm: fixed-window, limit: 60, window: 1h, gateways: auto, on-store-failure: local");
    let mut gateways = [Gateway::start(&yaml), Gateway::start(&yaml), Gateway::start(&yaml)];
    let all_count = |gateways: &[Gateway], number: f64| {
        eventually("they know each other", || {
            gateways.iter().all(|gateway| gateway.metric("tollgate_gateways", &[]) == number)
        });
    };
    all_count(&gateways, 3.0);
    gateways[2].signal("TERM");
    assert!(gateways[2].wait().success());
    all_count(&gateways[..2], 2.0);

    redis.kill();
    let admitted = gateways[..2].iter().map(|gateway| {
        let mut client = gateway.connect();
        (0..60).filter(|_| client.request("GET", "/a", &[("x-key", "k")], b"").status == 200).count()
    });
    assert_eq!(admitted.collect::<Vec<_>>(), [30, 30]);
    assert_eq!(gateways[0].metric("tollgate_gateways", &[]), 2.0, "the last number stands");
}

#[test]
fn gateways_are_counted_only_if_a_limiter_needs_it() {
    let redis = Redis::start();
    let counted = yaml(&redis.url(), "replenish-rate: 1, burst-capacity: 1, gateways: auto");
    let gateway = Gateway::start(&counted);
    eventually("it is counted", || gateway.metric("tollgate_gateways", &[]) == 1.0);
    assert_eq!(redis.cli(&["ZCARD", "tollgate.gateways"]), "1");
    gateway.reload(&counted.replace("auto", "2"));
    eventually("it takes its word back", || redis.cli(&["EXISTS", "tollgate.gateways"]) == "0");
    eventually("no gateway is counted", || !gateway.admin("/metrics").text().contains("\ntollgate_gateways "));
}
