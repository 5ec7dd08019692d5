//! Metrics of the process, and the form of the page.

use crate::support::eventually;
use crate::support::gateway::Gateway;

const LIMITED: &str = "routes:
  - id: one
    uri: 'echo:'
    predicates: [Path=/one]
    filters: [{name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 2, key-resolver: ip}}]
  - id: two
    uri: 'echo:'
    predicates: [Path=/two]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: ip
          limits: [{name: second, replenish-rate: 5, burst-capacity: 5}, {name: daily, algorithm: fixed-window, limit: 9, window: 1d}]
      - {name: ConcurrencyLimiter, args: {limit: 3, key-resolver: ip}}
";

/// Lines of the page that start with `name`.
fn series(gateway: &Gateway, name: &str) -> Vec<String> {
    gateway.admin("/metrics").text().lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

#[test]
fn the_client_chooses_the_format() {
    let gateway = Gateway::start(LIMITED);
    let open = gateway.connect_admin().request(
        "GET",
        "/metrics",
        &[("Accept", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2")],
        b"",
    );
    assert_eq!(open.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(open.text().contains("\n# TYPE tollgate_reloads counter\n") && open.text().ends_with("# EOF\n"));
    let text = gateway.admin("/metrics");
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(text.text().contains("\n# TYPE tollgate_reloads_total counter\ntollgate_reloads_total{} 0\n"));
    assert!(!text.text().contains("# EOF") && !text.text().contains("# UNIT"), "{}", text.text());
}

#[test]
fn rules_are_counted_from_zero_on() {
    let gateway = Gateway::start(LIMITED);
    let zero = |rule: &str, verdict: &str| {
        format!("tollgate_limiter_decisions_total{{{rule},verdict=\"{verdict}\",source=\"memory\"}} 0")
    };
    let rules = ["route=\"one\",rule=\"one\"", "route=\"two\",rule=\"daily\"", "route=\"two\",rule=\"second\""];
    let expected: Vec<String> = rules.iter().flat_map(|rule| [zero(rule, "allowed"), zero(rule, "denied")]).collect();
    eventually("the workers have built their routes", || series(&gateway, "tollgate_limiter_decisions") == expected);
    let concurrency = series(&gateway, "tollgate_concurrency_decisions_total");
    assert_eq!(concurrency.len(), 2, "{concurrency:?}");
    assert!(concurrency.iter().all(|line| line.contains("route=\"two\"") && line.ends_with(" 0")), "{concurrency:?}");
    gateway.get("/one");
    eventually("the request is counted", || {
        gateway.metric("tollgate_limiter_decisions_total", &["route=\"one\"", "\"allowed\""]) == 1.0
    });
    assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &[]), 1.0);
}

#[test]
#[cfg(target_os = "linux")]
fn the_process_and_its_build_are_described() {
    let gateway = Gateway::start("routes: []");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let started = gateway.metric("process_start_time_seconds", &[]);
    assert!((now - 60.0..now + 1.0).contains(&started), "{started} is not just before {now}");
    let resident = gateway.metric("process_resident_memory_bytes", &[]);
    assert!((resident / gateway.resident() as f64 - 1.0).abs() < 0.5, "{resident}");
    assert!(gateway.metric("process_virtual_memory_bytes", &[]) > resident);
    assert!(gateway.metric("process_cpu_seconds_total", &[]) > 0.0);
    let before = gateway.metric("process_open_fds", &[]);
    let _held: Vec<_> = (0..20).map(|_| gateway.connect()).collect();
    eventually("open connections are descriptors", || gateway.metric("process_open_fds", &[]) >= before + 20.0);
    assert!(gateway.metric("process_max_fds", &[]) >= before);
    let build = series(&gateway, "tollgate_build_info");
    assert_eq!(build.len(), 1, "{build:?}");
    assert!(build[0].contains(&format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))) && build[0].ends_with(" 1"));
}

#[test]
fn the_last_reload_is_told() {
    let gateway = Gateway::start(LIMITED);
    let figure = |name: &str| gateway.metric(&format!("tollgate_config_last_reload_{name}{{"), &[]);
    let (start, applied) = (figure("timestamp_seconds"), figure("success_timestamp_seconds"));
    assert_eq!((figure("successful"), start > 1.0e9, applied), (1.0, true, start));
    gateway.reload("routes: 5");
    assert_eq!(figure("successful"), 0.0);
    assert!(figure("timestamp_seconds") > start && figure("success_timestamp_seconds") == applied);
    gateway.reload(LIMITED);
    eventually("the new configuration is in use", || figure("successful") == 1.0);
    assert!(figure("success_timestamp_seconds") > applied);
}
