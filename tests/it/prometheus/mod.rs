//! The gateway beside a real Prometheus. `tests/run` installs it, or leaves these tests out and says so.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Runs promtool with `input`. Returns its exit status and everything that it printed.
fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is missing: tests/run installs it");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat())
}

#[test]
fn promtool_finds_nothing_to_mend() {
    let redis = Redis::start();
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}'}}\nupstreams: {{a: {{endpoints: ['http://127.0.0.1:1'], health: {{path: /}}}}}}\n\
         management: {{tracing: {{sampling: {{probability: 1.0}}}}, otlp: {{tracing: {{endpoint: \
         'http://127.0.0.1:1/v1/traces'}}}}}}\naccess-log: {{output: stdout}}\nroutes:\n\
         - {{id: a, uri: 'lb://a', predicates: [Path=/a], filters: [LocalResponseCache=1m, Retry=1, \
         {{name: CircuitBreaker, args: {{name: b}}}}, {{name: ConcurrencyLimiter, args: {{limit: 3, key-resolver: ip}}}}, \
         {{name: RequestRateLimiter, args: {{replenish-rate: 1, burst-capacity: 2, key-resolver: ip}}}}, \
         {{name: RequestCounter, args: {{key-resolver: ip}}}}]}}\n",
        redis.url()
    ));
    eventually("Redis is connected", || gateway.metric("tollgate_redis_connections", &[]) > 0.0);
    gateway.get("/a");
    gateway.get("/none");
    eventually("a route was called", || gateway.metric("spring_cloud_gateway_requests_seconds_count", &[]) > 0.0);
    for _ in 0..5 {
        gateway.get("/a");
    }
    eventually("spans are sent, in vain", || gateway.metric("tollgate_trace_spans_dropped_total", &["export"]) > 0.0);
    std::fs::write(gateway.config(), "routes: 1").unwrap();
    assert_eq!(Connection::open(gateway.admin).request("POST", "/api/reload", &[], b"").status, 422);
    let page = gateway.admin("/metrics").text();
    let families =
        ["tollgate_limiter_decisions", "tollgate_metering_counted", "process_open_fds", "tollgate_config_last_reload"];
    for family in families {
        assert!(page.contains(&format!("# TYPE {family}")), "{family}");
    }
    let (_, found) = promtool(&["check", "metrics"], &page);
    // Spring's family has Spring's labels, which are in camel case.
    let ours: Vec<&str> = found.lines().filter(|line| !line.starts_with("spring_cloud_gateway_requests_")).collect();
    assert_eq!(ours, Vec::<&str>::new(), "{page}");
    assert!(!found.contains("error while linting"), "{found}");
}

mod dashboard;
mod server;

/// Returns the path of a file of the repository.
fn repository(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn alerting_rules_pass_their_tests() {
    let tests = repository("deploy/prometheus/alerts_test.yaml");
    let (passed, printed) = promtool(&["test", "rules", tests.to_str().unwrap()], "");
    assert!(passed, "{printed}");
    let rules = std::fs::read_to_string(repository("deploy/prometheus/alerts.yaml")).unwrap();
    let tests = std::fs::read_to_string(tests).unwrap();
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(alerts.len(), 20, "{alerts:?}");
    let [table, runbook] = ["monitoring.md", "runbook.md"]
        .map(|page| std::fs::read_to_string(repository("docs/operations").join(page)).unwrap());
    for alert in alerts {
        let (_, rule) = rules.split_once(&format!("- alert: {alert}\n")).unwrap();
        let (_, severity) = rule.split_once("severity: ").unwrap();
        let severity = severity.split('}').next().unwrap();
        assert!(table.contains(&format!("| `{alert}` | {severity} |")), "{alert} is {severity}");
        assert_eq!(runbook.contains(&format!("`{alert}`")), severity == "critical", "{alert} is {severity}");
        let fires =
            tests.split(&format!("alertname: {alert}\n        exp_alerts:\n          - exp_labels")).count() > 1;
        assert!(fires, "no test makes {alert} fire");
    }
}
