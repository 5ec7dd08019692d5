//! Guards of the admin port: host names, browsers, secrets, slow clients, and log lines.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;

const CONFIG: &str = "
management: {endpoint: {gateway: {access: unrestricted}}, endpoints: {web: {exposure: {include: '*'}}}}
routes:
  - id: a
    uri: 'echo:'
    predicates: [Path=/a, 'Header=X-Key, s3cret.*', {any: ['Query=k, s3cret', 'Cookie=c, s3cret']}]
    metadata: {token: s3cret, response-timeout: 5000}
    filters:
      - AddRequestHeader=Authorization, Bearer s3cret
      - {name: RequestRateLimiter, args: {key-resolver: 'header:x-key', replenish-rate: 1, burst-capacity: 5, exempt: [s3cret]}}
";

/// Sends `head` to the admin port; returns the status.
fn raw(gateway: &Gateway, head: &str) -> u16 {
    let mut stream = TcpStream::connect(gateway.admin).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {answer}")).parse().unwrap()
}

#[test]
fn a_foreign_host_name_reads_and_changes_nothing() {
    let gateway = Gateway::start(CONFIG);
    for path in ["/metrics", "/api/limits", "/actuator/gateway/routes", "/health/ready", "/"] {
        let head = |host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(raw(&gateway, &head("rebound.example:9090")), 403, "{path}");
        assert_ne!(raw(&gateway, &head(&format!("localhost:{}", gateway.admin.port()))), 403, "{path}");
    }
    for method in ["PUT", "DELETE", "POST"] {
        let head = format!("{method} /api/limits/a/x HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n");
        assert_eq!(raw(&gateway, &head), 403, "{method}");
    }
    assert_eq!(
        raw(&gateway, "GET http://rebound.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        403
    );
}

#[test]
fn refresh_has_the_guards_of_a_change() {
    let gateway = Gateway::start(CONFIG);
    let refresh = |headers: &[(&str, &str)]| {
        Connection::open(gateway.admin).request("POST", "/actuator/gateway/refresh", headers, b"").status
    };
    assert_eq!(refresh(&[("Origin", "http://rebound.example")]), 403);
    assert_eq!(refresh(&[("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(gateway.metric("tollgate_reloads_total", &[]), 0.0);
    assert_eq!(refresh(&[]), 200);
    assert_eq!(gateway.metric("tollgate_reloads_total", &[]), 1.0);
}

#[test]
fn listed_routes_show_no_secrets() {
    let gateway = Gateway::start(CONFIG);
    for page in ["routes", "routes/a", "routedefinitions", "routes/a/combinedfilters"] {
        let text = gateway.admin(&format!("/actuator/gateway/{page}")).text();
        assert!(!text.contains("s3cret") && text.contains("AddRequestHeader=Authorization, ****"), "{page}: {text}");
    }
    let route = gateway.admin("/actuator/gateway/routes/a").json();
    assert_eq!((&route["metadata"]["token"], &route["metadata"]["response-timeout"]), (&"****".into(), &"5000".into()));
    assert!(route["predicate"].as_str().unwrap().contains("Header: X-Key regexp=****"), "{route}");
}

#[test]
fn a_key_cannot_forge_a_log_line() {
    let gateway = Gateway::start(CONFIG);
    let path = "/api/limits/a/x%0A2026-01-01T00:00:00Z%20%20INFO%20forged%1B%5B31m%0D%C2%9B";
    assert_eq!(Connection::open(gateway.admin).request("DELETE", path, &[], b"").status, 200);
    let line = gateway.logged("change requested on the admin port");
    let escaped = r#"change="reset of key x\n2026-01-01T00:00:00Z  INFO forged\u{1b}[31m\r\u{9b} under rule"#;
    assert!(line.contains(escaped), "{line}");
    assert!(!gateway.log().lines().any(|line| line.starts_with("2026-01-01")), "{}", gateway.log());
}

#[test]
fn a_crowd_of_idle_clients_leaves_descriptors_and_stops_no_probe() {
    let gateway = Gateway::start(CONFIG);
    let sockets = || {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap();
        fds.filter(|fd| {
            fd.as_ref().is_ok_and(|fd| {
                std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
            })
        })
        .count()
    };
    let before = sockets();
    let crowd: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(gateway.admin).unwrap()).collect();
    eventually("connections up to the cap are accepted", || sockets() >= before + 128);
    assert!(sockets() <= before + 130, "{} sockets, {before} before", sockets());
    for path in ["/health/ready", "/health/live", "/metrics"] {
        assert_eq!(raw(&gateway, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")), 200);
    }
    // The longest idle connections made room, before the timeout of any.
    let is_open = |mut client: &TcpStream| {
        client.set_nonblocking(true).unwrap();
        client.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(!is_open(&crowd[0]) && is_open(&crowd[255]));
}

#[test]
fn a_body_that_does_not_arrive_ends_with_a_timeout() {
    let gateway = Gateway::start(CONFIG);
    let mut stream = TcpStream::connect(gateway.admin).unwrap();
    stream.write_all(b"PUT /api/limits/a/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n{").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[test]
fn large_bodies_are_refused() {
    let gateway = Gateway::start(CONFIG);
    let body = |bytes: usize| format!("{{\"grant\": 1, \"rule\": \"{}\"}}", "a".repeat(bytes));
    let change = |method: &str, path: &str, body: String| {
        Connection::open(gateway.admin).request(method, path, &[], body.as_bytes())
    };
    let refused = change("PUT", "/api/limits/a/x", body(5000));
    assert!(refused.status == 400 && refused.text().contains("length limit exceeded"), "{}", refused.text());
    let refused = change("POST", "/api/limits/a", body(600_000));
    assert!(refused.status == 400 && refused.text().contains("length limit exceeded"), "{}", refused.text());
}
