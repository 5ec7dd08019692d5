//! Metrics of the process, and the form of the page.

use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};
use tollgate_test_support::Certificates;

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

/// Returns the lines of the page that start with `name`.
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

#[test]
fn a_reload_keeps_the_counts_of_routes_that_stay() {
    let upstream = Upstream::start(|_| response(200, &[], b"x"));
    let spring = |path_tags: bool, kept: &str| {
        format!(
            "server.port: 0\nspring.cloud.gateway:\n  metrics.path-tags.enabled: {path_tags}\n  routes:\n  \
             - {{id: one, uri: '{uri}', predicates: ['Path=/one,/first']}}\n  \
             - {{id: {kept}, uri: 'no://op', predicates: [Path=/two], filters: ['SetRequestUri={uri}/x']}}\n",
            uri = upstream.uri(),
        )
    };
    for path_tags in [false, true] {
        let gateway = Gateway::start(&spring(path_tags, "two"));
        for path in ["/one", "/first", "/two"].repeat(5) {
            assert_eq!(gateway.get(path).status, 200, "{path}");
        }
        let count = |labels: &[&str]| gateway.metric("spring_cloud_gateway_requests_seconds_count", labels);
        let dynamic = || gateway.metric("tollgate_upstream_response_seconds_count", &["upstream=\"dynamic\""]);
        let path = if path_tags { "path=\"/first\"" } else { "routeId" };
        let one = if path_tags { 5.0 } else { 10.0 };
        for kept in ["two", "two", "new"] {
            gateway.reload(&spring(path_tags, kept));
            for scrape in 0..3 {
                assert_eq!(count(&["routeId=\"one\"", path]), one, "scrape {scrape} after a reload");
                assert_eq!(dynamic(), 5.0, "scrape {scrape} after a reload");
                assert!(kept == "new" || count(&["routeId=\"two\""]) == 5.0, "scrape {scrape} after a reload");
            }
        }
        eventually("the counts of the removed route end", || count(&["routeId=\"two\""]) == 0.0);
        assert_eq!(gateway.get("/first").status, 200);
        eventually("the request is added", || count(&["routeId=\"one\"", path]) == one + 1.0);
    }
}

#[test]
fn client_connections_and_handshakes_are_counted() {
    let certificates = Certificates::new();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, ssl: {{certificate: {}, certificate-private-key: {}}}}}\n\
         routes: [{{id: a, uri: 'echo:', predicates: [Path=/a]}}]\n",
        certificates.server().display(),
        certificates.server_key().display(),
    ));
    let handshakes = |outcome: &str| gateway.metric("tollgate_tls_handshakes_total", &[outcome]);
    assert_eq!((handshakes("ok"), handshakes("failed")), (0.0, 0.0));
    assert_eq!(gateway.metric("tollgate_certificate_expiry_timestamp_seconds", &["role=\"server\""]), 67_090_118_400.0);
    let clear = gateway.get("/a");
    assert_eq!(clear.status, 400);
    eventually("the failed handshake is counted", || handshakes("failed") == 1.0);
    let opened = gateway.metric("tollgate_client_connections_opened_total", &[]);
    let held = gateway.connect();
    eventually("the connection is open", || gateway.metric("tollgate_client_connections{", &[]) == 1.0);
    drop(held);
    eventually("the connection is closed", || gateway.metric("tollgate_client_connections{", &[]) == 0.0);
    assert_eq!(gateway.metric("tollgate_client_connections_opened_total", &[]), opened + 1.0);
    let status = std::process::Command::new("curl")
        .args(["-sfk", "-o", "/dev/null", &format!("https://{}/a", gateway.address)])
        .status()
        .unwrap();
    assert!(status.success());
    eventually("the handshake is counted", || handshakes("ok") == 1.0);
}

#[test]
fn refused_connections_are_counted() {
    let gateway = Gateway::start("server: {address: 127.0.0.1, workers: 1, max-connections-per-client: 2}\nroutes: []");
    let _held = [gateway.connect(), gateway.connect()];
    eventually("both are open", || gateway.metric("tollgate_client_connections{", &[]) == 2.0);
    let _refused = gateway.connect();
    eventually("the third is refused", || gateway.metric("tollgate_client_connections_refused_total", &[]) == 1.0);
}

#[test]
fn upstream_times_are_measured_by_upstream() {
    let upstream = Upstream::start(|_| response(200, &[], b"x"));
    let certificates = Certificates::new();
    let gateway = Gateway::start(&format!(
        "upstreams: {{pool: {{endpoints: ['{uri}']}}}}\nroutes:\n\
         - {{id: one, uri: '{uri}', predicates: [Path=/one]}}\n- {{id: two, uri: 'lb://pool', predicates: [Path=/two]}}\n\
         - {{id: three, uri: '{uri}', predicates: [Path=/three], filters: ['SetRequestUri={uri}/x']}}\n\
         - {{id: four, uri: '{uri}', predicates: [Path=/four], tls: {{cert: {}, key: {}}}}}\n",
        certificates.client().display(),
        certificates.client_key().display(),
        uri = upstream.uri(),
    ));
    for path in ["/one", "/one", "/two", "/three"] {
        assert_eq!(gateway.get(path).status, 200, "{path}");
    }
    let address = upstream.uri().replace("http://", "");
    for (name, requests, connections) in [(address.as_str(), 2.0, 1.0), ("pool", 1.0, 1.0), ("dynamic", 1.0, 0.0)] {
        let label = format!("upstream=\"{name}\"");
        let count = |family: &str| gateway.metric(&format!("tollgate_upstream_{family}_seconds_count"), &[&label]);
        assert_eq!((count("response"), count("connect")), (requests, connections), "{name}");
        assert!(gateway.metric("tollgate_upstream_response_seconds_sum", &[&label]) > 0.0, "{name}");
    }
    assert!(gateway.metric("tollgate_certificate_expiry_timestamp_seconds", &["client", "route=\"four\""]) > 1.0e9);
}
