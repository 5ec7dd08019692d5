//! Tokens of the admin port, on an address that other machines can reach.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::support::client::{Connection, Response};
use crate::support::eventually;
use crate::support::gateway::Gateway;

const READ: &str = "read-token-of-16-bytes";
const WRITE: &str = "write-token-of-16-bytes";
const ROUTES: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: RequestRateLimiter, \
    args: {key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 5}}]}]\n";
const TOKENS: &str = "tokens: [{name: prometheus, role: read, token: read-token-of-16-bytes}, \
    {name: ops, role: write, token: write-token-of-16-bytes}]";

fn gateway(address: &str, management: &str) -> Gateway {
    Gateway::start(&format!("management: {{server: {{address: {address}}}, {management}}}\n{ROUTES}"))
}

/// Sends a request from this host, with a token.
fn ask(gateway: &Gateway, method: &str, path: &str, token: &str) -> Response {
    let authorization = format!("Bearer {token}");
    let headers = [("Authorization", authorization.as_str())];
    let headers = if token.is_empty() { &[][..] } else { &headers[..] };
    let body = if method == "PUT" { &b"{\"grant\": 1}"[..] } else { b"" };
    let address = SocketAddr::from(([127, 0, 0, 1], gateway.admin.port()));
    Connection::open(address).request(method, path, headers, body)
}

#[test]
fn on_another_address_reads_and_changes_need_a_token() {
    let gateway = gateway("0.0.0.0", &format!("metrics: {{open: true}}, {TOKENS}"));
    eventually("it is ready", || ask(&gateway, "GET", "/health/ready", "").status == 200);
    let status = |method: &str, path: &str| {
        ["", "unknown-token-of-16", READ, WRITE].map(|token| ask(&gateway, method, path, token).status)
    };
    for open in ["/health/live", "/health/ready", "/actuator/health", "/metrics", "/actuator/prometheus"] {
        assert_eq!(status("GET", open), [200; 4], "{open}");
    }
    let shows_components = ["", "unknown-token-of-16", READ, WRITE]
        .map(|token| ask(&gateway, "GET", "/actuator/health", token).json().get("components").is_some());
    assert_eq!(shows_components, [false, false, true, true], "the status is for everyone, components are not");
    for read in ["/api/limits", "/api/limits/a/x", "/actuator", "/actuator/gateway/routes"] {
        assert_eq!(status("GET", read), [401, 401, 200, 200], "{read}");
    }
    for (method, path) in
        [("PUT", "/api/limits/a/x"), ("DELETE", "/api/limits/a/x"), ("POST", "/actuator/gateway/refresh")]
    {
        assert_eq!(status(method, path), [401, 401, 403, 200], "{method} {path}");
    }
    assert_eq!(status("GET", "/none"), [401, 401, 404, 404], "the list of endpoints is read, too");
    let line = gateway.logged("change requested on the admin port caller=ops");
    assert!(line.contains("client=127.0.0.1") && line.contains("path=\"/api/limits/{route}/{key}\""), "{line}");
    assert!(!gateway.log().contains("token-of-16"), "{}", gateway.log());
}

#[test]
fn a_token_that_is_sent_where_none_is_needed_must_be_right() {
    let gateway = gateway("127.0.0.1", TOKENS);
    let status = |method: &str, path: &str| {
        ["", "unknown-token-of-16", READ, WRITE].map(|token| ask(&gateway, method, path, token).status)
    };
    assert_eq!(status("GET", "/api/limits"), [200, 401, 200, 200]);
    assert_eq!(status("PUT", "/api/limits/a/x"), [200, 401, 403, 200]);
    assert_eq!(status("GET", "/health/ready"), [200; 4], "health is open");
    gateway.logged("change requested on the admin port caller=ops");
    let basic = [("Authorization", "Basic dXNlcjpwYXNz")];
    let login = Connection::open(gateway.admin).request("GET", "/api/limits", &basic, b"");
    assert_eq!(login.status, 200, "the login of a proxy in front");
    let page = ask(&gateway, "GET", "/metrics", "").text();
    assert!(page.contains("tollgate_admin_refused_requests_total{reason=\"unknown_token\"} 2\n"), "{page}");
    let right = format!("Bearer {WRITE}");
    let unreadable: [&[&str]; 9] = [
        &["Bearer"],
        &["Bearer "],
        &[""],
        &[WRITE],
        &["Bearer\ttoken"],
        &["Bearer: token"],
        &["Basic"],
        &[&right, &right],
        &["Basic dXNlcjpwYXNz", &right],
    ];
    for fields in unreadable {
        let fields: Vec<_> = fields.iter().map(|value| ("Authorization", *value)).collect();
        let refused = Connection::open(gateway.admin).request("GET", "/api/limits", &fields, b"");
        assert_eq!(refused.status, 401, "{fields:?}");
    }
}

#[test]
fn wrong_tokens_are_counted_and_logged_within_a_bound() {
    let gateway = gateway("0.0.0.0", &format!("metrics: {{open: true}}, {TOKENS}"));
    eventually("it is ready", || ask(&gateway, "GET", "/health/ready", "").status == 200);
    let started = Instant::now();
    for _ in 0..100 {
        assert_eq!(ask(&gateway, "GET", "/api/limits", "guess-of-a-token-16").status, 401);
    }
    assert_eq!(ask(&gateway, "DELETE", "/api/limits/a/x", READ).status, 403);
    assert_eq!(ask(&gateway, "GET", "/api/limits", "").status, 401);
    // hyper refuses it before the token is looked at.
    let mut stream = TcpStream::connect(("127.0.0.1", gateway.admin.port())).unwrap();
    stream.write_all(b"GET /api/limits HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\x01b\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    gateway.logged("reason=\"malformed\"");
    let page = ask(&gateway, "GET", "/metrics", "").text();
    let once = ["read_only", "no_credentials", "malformed"].map(|reason| (reason, 1));
    for (reason, count) in [("unknown_token", 100), ("host", 0), ("origin", 0)].into_iter().chain(once) {
        let series = format!("tollgate_admin_refused_requests_total{{reason=\"{reason}\"}} {count}\n");
        assert!(page.contains(&series), "{series} {page}");
    }
    let line = gateway.logged("request to the admin port refused");
    assert!(line.contains("client=127.0.0.1") && line.contains("reason=\"unknown_token\""), "{line}");
    let log = gateway.log();
    let is_refusal = |line: &&str| line.contains("request to the admin port refused") && !line.contains("malformed");
    let lines = log.lines().filter(is_refusal).count();
    // Twenty lines in ten seconds.
    let bound = 20 * (1 + usize::try_from(started.elapsed().as_secs() / 10).unwrap());
    assert!((1..=bound).contains(&lines) && !log.contains("guess-of-a-token"), "{lines} lines: {log}");
}

#[test]
fn refusals_are_problems_with_a_challenge() {
    let gateway = gateway("0.0.0.0", TOKENS);
    let missing = ask(&gateway, "GET", "/metrics", "");
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("Bearer realm=\"tollgate\"")));
    assert_eq!(missing.header("content-type"), Some("application/problem+json"));
    let body = missing.json();
    assert_eq!(
        (&body["status"], &body["title"], &body["type"]),
        (&401.into(), &"Unauthorized".into(), &"about:blank".into())
    );
    let forbidden = ask(&gateway, "DELETE", "/api/limits/a/x", READ);
    assert!(forbidden.header("www-authenticate").unwrap().contains("insufficient_scope"));
    assert!(forbidden.json()["detail"].as_str().unwrap().contains("`prometheus` has the role `read`"));
    let address = SocketAddr::from(([127, 0, 0, 1], gateway.admin.port()));
    let refused = |headers: &[(&str, &str)]| Connection::open(address).request("GET", "/api/limits", headers, b"");
    let bearer = format!("bEaReR {READ}");
    assert_eq!(refused(&[("authorization", &bearer)]).status, 200, "the scheme ignores case");
    assert_eq!(refused(&[("authorization", &bearer), ("authorization", &bearer)]).status, 401);
    assert_eq!(refused(&[("authorization", READ)]).status, 401);
    let origin = [("authorization", &*format!("Bearer {WRITE}")), ("origin", "http://evil.example")];
    let page = Connection::open(address).request("DELETE", "/api/limits/a/x", &origin, b"");
    assert_eq!(page.status, 403, "a page of another origin, with a token");
}

#[test]
fn without_tokens_only_health_is_served_on_another_address() {
    let gateway = gateway("0.0.0.0", "readiness: {redis: false}");
    assert!(gateway.log().contains("this address serves only health"), "{}", gateway.log());
    let paths = ["/health/live", "/metrics", "/api/limits", "/actuator/gateway/routes"];
    assert_eq!(paths.map(|path| ask(&gateway, "GET", path, WRITE).status), [200, 401, 401, 401]);
}

#[test]
fn components_of_health_are_shown_to_everyone_only_if_the_file_says_so() {
    let shown = |details: &str| {
        let health = format!("endpoint: {{health: {{show-details: {details}}}}}, {TOKENS}");
        let gateway = gateway("0.0.0.0", &health);
        ["", READ].map(|token| ask(&gateway, "GET", "/actuator/health", token).json().get("components").is_some())
    };
    assert_eq!(["always", "when-authorized", "never"].map(shown), [[true, true], [false, true], [false, false]]);
}

#[test]
fn on_a_loopback_address_no_token_is_needed() {
    let gateway = gateway("127.0.0.1", TOKENS);
    for (method, path) in [("GET", "/metrics"), ("GET", "/api/limits/a/x"), ("PUT", "/api/limits/a/x")] {
        assert_eq!(ask(&gateway, method, path, "").status, 200, "{method} {path}");
    }
    let own = format!("localhost:{}", gateway.admin.port());
    let page = [("Host", own.as_str()), ("Origin", &format!("http://{own}")), ("Sec-Fetch-Site", "same-origin")];
    let changed = Connection::open(gateway.admin).request("DELETE", "/api/limits/a/x", &page, b"");
    assert_eq!(changed.status, 200, "a page of this port");
}

#[test]
fn a_reload_replaces_the_tokens() {
    let gateway = gateway("0.0.0.0", TOKENS);
    let reloaded = TOKENS.replace(READ, "another-token-of-16");
    gateway.reload(&format!("management: {{server: {{address: 0.0.0.0}}, {reloaded}}}\n{ROUTES}"));
    let paths = [READ, "another-token-of-16"].map(|token| ask(&gateway, "GET", "/api/limits", token).status);
    assert_eq!(paths, [401, 200]);
}
