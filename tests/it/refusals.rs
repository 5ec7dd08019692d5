//! Refusals say why, in the body and in the log.

use crate::support::eventually;
use crate::support::gateway::Gateway;

#[test]
fn a_head_that_the_parser_refuses_is_logged_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, max-http-request-header-size: 100KB}}\n\
         access-log: {{output: '{}', format: json}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n",
        path.display()
    ));
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(70_000));
    let fields = format!("GET /x HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(1500));
    let cases = [
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "Bad Request: the protocol version"),
        (&*long, 414, "URI Too Long: the request target is too long"),
        (&*fields, 431, "Request Header Fields Too Large: the request head"),
    ];
    for (request, status, text) in cases {
        let mut client = gateway.connect();
        let _ = client.try_send(request);
        let answer = client.response().unwrap();
        assert_eq!(answer.status, status);
        assert!(answer.text().starts_with(text) && answer.header("date").is_some(), "{answer:?}");
    }
    // A second request on a connection counts as well; a client that leaves in the middle of a head is no refusal.
    let mut client = gateway.connect();
    assert_eq!(client.request("GET", "/good", &[], b"").status, 200);
    let _ = client.try_send("G<T /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().map(|answer| answer.status), Some(400));
    let mut client = gateway.connect();
    let _ = client.try_send("GET /half HTTP/1.1\r\nHo");
    drop(client);
    let count = |status: &str| {
        gateway.metric("tollgate_unrouted_requests_total", &["method=\"OTHER\"", &format!("\"{status}\"")])
    };
    eventually("all are counted", || (count("400"), count("414"), count("431")) == (2.0, 1.0, 1.0));
    eventually("all are logged", || std::fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 5));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let refused: Vec<_> = lines.filter(|line| line["reason"] == "unreadable-head").collect();
    assert_eq!(refused.len(), 4, "{text}");
    for line in refused {
        let fields = (&line["client"], &line["method"], &line["target"]);
        assert_eq!(fields, (&"127.0.0.1".into(), &"-".into(), &"-".into()), "{line}");
        assert!(line["detail"].as_str().is_some_and(|detail| detail.starts_with("the ")), "{line}");
    }
}

#[test]
fn every_400_says_why_in_its_body_and_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, path: {{encoded-slash: keep}}}}\n\
         access-log: {{output: '{}', format: json}}\n\
         routes: [{{id: a, uri: 'echo:', predicates: ['Path=/img-{{name}}'], filters: ['SetPath=/x/{{name}}', \
         'AddRequestHeader=X-Name, {{name}}']}}]\n",
        path.display()
    ));
    let cases = [
        ("GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n", "the path contains a NUL or a control byte"),
        ("GET /..;x HTTP/1.1\r\nHost: a\r\n\r\n", "the path contains a dot segment with parameters (`..;`)"),
        ("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", "the Host field is not host[:port]"),
        ("GET / HTTP/1.1\r\n\r\n", "no Host field"),
        ("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: x\r\n\r\n", "Max-Forwards is not a number"),
        (
            "GET /..%2Fb HTTP/1.1\r\nHost: a\r\n\r\n",
            "the path contains a dot segment beside an encoded separator (`..%2F`)",
        ),
        (
            "GET /img-..%2Fb HTTP/1.1\r\nHost: a\r\n\r\n",
            "after a filter, the path contains a dot segment beside an encoded separator (`..%2F`)",
        ),
        (
            "GET /img-a%0Ab HTTP/1.1\r\nHost: a\r\n\r\n",
            "a value of the request is not valid in the field that a filter sets",
        ),
        (
            "GET /\u{b} HTTP/1.1\r\nHost: a\r\n\r\n",
            "the request target has characters that must be percent-encoded, or is malformed",
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", "a field line is malformed"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", "Content-Length is not one number"),
    ];
    for (request, detail) in cases {
        let mut client = gateway.connect();
        client.send(request);
        let answer = client.response().unwrap();
        assert_eq!((answer.status, answer.text()), (400, format!("Bad Request: {detail}\n")), "{request:?}");
    }
    eventually("all are logged", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == cases.len())
    });
    let text = std::fs::read_to_string(&path).unwrap();
    let details: Vec<_> =
        text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["detail"].clone()).collect();
    assert_eq!(details, cases.map(|(_, detail)| detail));
}
