//! Malformed requests, and requests that two servers could read in two ways, are refused (RFC 9112).

use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// Request that would be executed if the one before it were read wrongly.
pub const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Sends each request followed by another. The status must be one of `statuses`, the connection must close, and the
/// upstream must receive nothing.
#[track_caller]
pub fn all_refused<R: AsRef<[u8]>>(statuses: &[u16], requests: impl IntoIterator<Item = R>) {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    for request in requests {
        let request = request.as_ref();
        let shown = String::from_utf8_lossy(&request[..request.len().min(300)]).into_owned();
        let mut client = gateway.connect();
        let _ = client.try_send([request, SMUGGLED.as_bytes()].concat());
        let answer = client.response().unwrap_or_else(|| panic!("no response to {shown:?}"));
        assert!(statuses.contains(&answer.status), "{} to {shown:?}", answer.status);
        if answer.status == 400 {
            let text = answer.text();
            assert!(text.starts_with("Bad Request: ") && text.len() > 20, "{text:?} to {shown:?}");
        }
        assert!(client.is_closed(), "the connection stays open after {shown:?}");
        assert_eq!(upstream.requests().len(), 0, "the upstream saw {shown:?}");
    }
    assert_eq!(gateway.get("/last").status, 200);
    assert_eq!(upstream.targets(), ["/last"]);
}

/// Returns a request with these lines between the request line and the empty line, and a body of five bytes.
pub fn post(lines: &str, body: &str) -> String {
    format!("POST /x HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n{body}")
}

#[test]
fn a_malformed_request_line_is_refused() {
    all_refused(
        &[400, 505],
        [
            "GET /x\r\n\r\n",
            "GET\r\n\r\n",
            "/x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET  /x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /x  HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            " GET /x HTTP/1.1\r\nHost: a\r\n\r\n",
            "G<T /x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET\t/x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /x\tHTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\0x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /x\rGET /y HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http:// HTTP/1.1\r\nHost: a\r\n\r\n",
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}tls client hello\r\n\r\n",
        ],
    );
}

#[test]
fn an_unsupported_version_is_refused() {
    all_refused(
        &[400, 505],
        [
            "GET /x HTTP/1.2\r\nHost: a\r\n\r\n",
            "GET /x HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET /x HTTP/0.9\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1.10\r\nHost: a\r\n\r\n",
            "GET /x HTTP/01.1\r\nHost: a\r\n\r\n",
            "GET /x http/1.1\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1\r\nHost: a\r\n\r\n",
            "GET /x HTTPS/1.1\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1.1 \r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn a_missing_second_or_invalid_host_is_refused() {
    all_refused(
        &[400],
        [
            "GET /x HTTP/1.1\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost:\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a, b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a,b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: %61\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: ex%61mple.com:80\r\n\r\n",
            "GET http://ex%61mple.com/x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a/b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: user@a\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a:80:80\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a:http\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: [::1\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: .api.example.org\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: api..example.org\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: [api.example.org]\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: [api.example.org]:80\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: [v1.api.example.org]\r\n\r\n",
            "GET http://[api.example.org]/x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a?b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a#b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\\b\r\n\r\n",
            "GET http://user:secret@a/x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://user@a/x HTTP/1.1\r\n\r\n",
            "GET http://a/x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn malformed_fields_are_refused() {
    all_refused(
        &[400],
        [
            "GET /x HTTP/1.1\r\nHost: a\r\nX: a\r\n folded\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX: a\r\n\tfolded\r\n\r\n",
            "GET /x HTTP/1.1\r\n X: leading\r\nHost: a\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX(): z\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX\0: z\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX: a\r\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX: a\u{1}b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX: a\u{7f}b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\nX\u{e9}: b\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a\r\n\rX: b\r\n\r\n",
        ],
    );
}

#[test]
fn a_bare_line_feed_ends_a_line_and_is_not_forwarded() {
    // RFC 9112 §2.2 allows a recipient to accept this; the upstream must read the same fields.
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\nHost: a\nX: 1\nContent-Length: 5\r\nY: 2\n\nhello");
    assert_eq!(client.response().unwrap().status, 200);
    let request = &upstream.requests()[0];
    assert_eq!((request.header("x"), request.header("y")), (Some("1"), Some("2")));
    assert_eq!(request.body, b"hello");
}

#[test]
fn too_large_heads_are_refused_and_close_the_connection() {
    let fields = |count: usize| (0..count).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    all_refused(
        &[400, 414, 431],
        [
            format!("GET /x HTTP/1.1\r\nHost: a\r\n{}\r\n", fields(101)),
            format!("GET /x HTTP/1.1\r\nHost: a\r\n{}\r\n", fields(10_000)),
            format!("GET /x HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(128 * 1024)),
            format!("GET /x HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(1024 * 1024)),
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(70 * 1024)),
        ],
    );
}

#[test]
fn a_request_line_of_8000_bytes_is_accepted() {
    // Recommended by RFC 9112 §3.
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    let target = format!("/{}?{}", "p".repeat(3990), "q".repeat(4000));
    assert_eq!(gateway.get(&target).status, 200);
    assert_eq!(upstream.targets(), [target]);
}

#[test]
fn connect_trace_and_options_of_the_gateway_are_answered_locally() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    for request in [
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        "CONNECT /x HTTP/1.1\r\nHost: a\r\n\r\n",
        "TRACE /x HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let mut client = gateway.connect();
        client.send([request, SMUGGLED].concat());
        let answer = client.response().unwrap();
        assert!([400, 405].contains(&answer.status), "{} to {request:?}", answer.status);
        assert!(client.is_closed(), "{request:?}");
    }
    let mut client = gateway.connect();
    let answer = client.request("OPTIONS", "*", &[], b"");
    assert_eq!(answer.status, 204);
    assert!(answer.header("allow").unwrap().contains("OPTIONS"));
    assert_eq!(client.request("OPTIONS", "/x", &[("Max-Forwards", "0")], b"").status, 204);
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(client.request("OPTIONS", "/x", &[("Max-Forwards", "7")], b"").status, 200);
    assert_eq!(client.request("GET", "/x", &[("Max-Forwards", "7")], b"").status, 200);
    let seen: Vec<_> = upstream.requests().iter().map(|r| r.header("max-forwards").unwrap().to_owned()).collect();
    assert_eq!(seen, ["6", "7"], "it counts for OPTIONS and TRACE alone (RFC 9110 §7.6.2)");
    assert_eq!(client.request("OPTIONS", "/x", &[("Max-Forwards", "many")], b"").status, 400);
}

#[test]
fn the_authority_of_an_absolute_target_replaces_host() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/x, Host=a.example], filters: [PreserveHostHeader]}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    let answer = client.request("GET", "http://a.example/x?y", &[("Host", "b.example")], b"");
    assert_eq!(answer.status, 200);
    let request = &upstream.requests()[0];
    assert_eq!((request.target(), request.all("host")), ("/x?y", vec!["a.example"]));
    assert_eq!(client.request("GET", "http://b.example/x", &[("Host", "a.example")], b"").status, 404);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_expectation_other_than_100_continue_is_refused() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    assert_eq!(gateway.connect().request("GET", "/x", &[("Expect", "200-ok")], b"").status, 417);
    assert_eq!(upstream.requests().len(), 0);
}
