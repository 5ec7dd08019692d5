//! Health, metrics and routes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use crate::support::gateway::{Gateway, TOLLGATE};
use crate::support::upstream::{Upstream, response};
use crate::support::{eventually, free_address};

const CONFIG: &str = "routes:
  - id: limited
    uri: 'echo:'
    predicates: ['Path=/limited', 'Method=GET']
    filters:
      - {name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 300, requested-tokens: 100, key-resolver: 'header:x-key'}}
  - {id: plain, uri: 'echo:', predicates: [Path=/plain/**], order: 5, metadata: {team: payments}}
";

#[test]
fn metrics_count_requests() {
    let upstream = Upstream::start(|_| response(503, &[], b"busy"));
    let gateway =
        Gateway::start(&format!("{CONFIG}  - {{id: broken, uri: '{}', predicates: [Path=/broken]}}\n", upstream.uri()));
    let mut client = gateway.connect();
    for _ in 0..5 {
        client.request("GET", "/limited", &[("x-key", "of-a-client")], b"");
    }
    client.request("GET", "/limited", &[], b"");
    for method in ["GET", "GET", "POST", "BREW", "WHEN"] {
        assert_eq!(client.request(method, "/plain/x", &[], b"").status, 200);
    }
    client.request("GET", "/broken", &[], b"");
    client.request("GET", "/nowhere", &[], b"");
    client.request("GET", "/nowhere", &[], b"");

    let requests = |route: &str, labels: &[&str]| {
        let route = format!("routeId=\"{route}\"");
        gateway.metric("spring_cloud_gateway_requests_seconds_count", &[&[route.as_str()][..], labels].concat())
    };
    eventually("all are counted", || gateway.metric("tollgate_unrouted_requests_total", &[]) == 2.0);
    assert_eq!(requests("limited", &["httpStatusCode=\"200\"", "outcome=\"SUCCESSFUL\"", "status=\"OK\""]), 3.0);
    assert_eq!(requests("limited", &["httpStatusCode=\"429\"", "status=\"TOO_MANY_REQUESTS\""]), 2.0);
    assert_eq!(requests("limited", &["httpStatusCode=\"403\""]), 1.0);
    assert_eq!(requests("plain", &["httpMethod=\"GET\""]), 2.0);
    assert_eq!(requests("plain", &["httpMethod=\"POST\""]), 1.0);
    assert_eq!(requests("plain", &["httpMethod=\"OTHER\""]), 2.0);
    assert_eq!(requests("broken", &["outcome=\"SERVER_ERROR\"", "httpStatusCode=\"503\""]), 1.0);
    let verdicts = |verdict: &str| {
        let verdict = format!("verdict=\"{verdict}\"");
        gateway.metric("tollgate_limiter_decisions_total", &["route=\"limited\"", "source=\"memory\"", &verdict])
    };
    assert_eq!((verdicts("allowed"), verdicts("denied")), (3.0, 2.0));
    assert_eq!(gateway.metric("tollgate_memory_keys", &[]), 1.0);

    let page = gateway.admin("/metrics");
    // The process's CPU time moves on between two pages.
    let series =
        |text: String| text.lines().filter(|line| !line.starts_with("process_")).collect::<Vec<_>>().join("\n");
    assert_eq!(series(page.text()), series(gateway.admin("/actuator/prometheus").text()));
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(
        !page.text().contains("of-a-client") && !page.text().contains("BREW"),
        "labels are not the clients' to choose"
    );
}

#[test]
fn health_and_routes_have_springs_shape() {
    let gateway = Gateway::start(CONFIG);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    for path in ["/health/live", "/health/ready", "/actuator/health", "/actuator/health/liveness"] {
        let health = gateway.admin(path);
        assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("UP")), "{path}");
    }
    let routes = gateway.admin("/actuator/gateway/routes").json();
    assert_eq!(routes.as_array().unwrap().len(), 2);
    assert_eq!(routes[0]["route_id"], "limited");
    let plain = gateway.admin("/actuator/gateway/routes/plain").json();
    assert_eq!((&plain["uri"], &plain["order"]), (&"echo:".into(), &5.into()));
    assert_eq!(plain["metadata"]["team"], "****", "its value may be a secret");
    assert!(plain["predicate"].as_str().unwrap().contains("/plain/**"), "{plain}");
    assert_eq!(gateway.admin("/actuator/gateway/routes/none").status, 404);
}

#[test]
fn the_admin_port_is_read_only_and_lists_its_endpoints() {
    let gateway = Gateway::start(CONFIG);
    let mut client = crate::support::client::Connection::open(gateway.admin);
    let refused = client.request("POST", "/actuator/gateway/routes", &[], b"x");
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
    let index = gateway.admin("/none");
    assert_eq!(index.status, 404);
    assert!(index.text().contains("/metrics"));
    let mut client = crate::support::client::Connection::open(gateway.admin);
    assert_eq!(client.request("HEAD", "/metrics", &[], b"").status, 200);
    assert_eq!(client.request("GET", "/health/live", &[], b"").status, 200, "HEAD had no body");
    assert_eq!(gateway.get("/metrics").status, 404, "nothing of it is on the port for traffic");
}

#[test]
fn the_health_command_reports_by_exit_code() {
    let gateway = Gateway::start(CONFIG);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let health = |address: String| Command::new(TOLLGATE).args(["health", &address]).output().unwrap();
    assert_eq!(health(gateway.admin.to_string()).status.code(), Some(0));
    let refused = health(free_address().to_string());
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).starts_with("tollgate: no response from 127.0.0.1:"));
    let unready = health(gateway.address.to_string());
    assert_eq!(unready.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&unready.stderr);
    assert!(stderr.contains("does not respond as an admin port does") && stderr.contains("status 404"), "{stderr}");
    let echo = Gateway::to("echo:");
    let foreign = Command::new(TOLLGATE).args(["status", &echo.address.to_string()]).output().unwrap();
    let stderr = String::from_utf8_lossy(&foreign.stderr);
    assert!(stderr.contains("is it the port for traffic?"), "{stderr}");
}

#[test]
fn a_change_is_not_confirmed_by_a_server_that_is_no_gateway() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let serving = thread::spawn(move || {
        for body in ["ok", "{\"message\": \"Welcome\"}"].iter().cycle().take(10) {
            let mut client = server.accept().unwrap().0;
            let _ = client.read(&mut [0; 4096]).unwrap();
            write!(client, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    let commands = ["reload", "limits reset a k", "top", "drain a b --for 1m", "breaker a --end"];
    for command in commands.iter().flat_map(|command| [command; 2]) {
        let command = command.split(' ').chain([&*address]);
        let output = Command::new(TOLLGATE).args(command).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains("is it the port for traffic?"), "{output:?}");
    }
    serving.join().unwrap();
}
