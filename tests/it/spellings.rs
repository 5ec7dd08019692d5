//! Spellings of targets: forwarded as the client wrote them, matched, counted and logged in normal form.

use crate::http2::raw::{DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, OK, ORDINARY, RST_STREAM, Raw, block};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::secure::{Server, ServerProtocol, answer};
use crate::support::upstream::{Upstream, response};

/// Targets that a client sends, and those that the upstream receives.
const SPELLINGS: [(&str, &str); 30] = [
    ("/", "/"),
    ("/a/b", "/a/b"),
    ("/a/b/", "/a/b/"),
    ("/a/../b", "/b"),
    ("/a/%2e%2E/b", "/b"),
    ("/a/.%2e/b", "/b"),
    ("/a/./b", "/a/b"),
    ("/a/..", "/"),
    ("/a//../b%7E", "/b~"),
    ("/a//b", "/a//b"),
    ("//a", "//a"),
    ("//", "//"),
    ("/unsafe/https://a.example//b.png", "/unsafe/https://a.example//b.png"),
    ("/MEIwQDA%2BMDwwOjAJBgUrDgMCGgUABBQ//a=", "/MEIwQDA%2BMDwwOjAJBgUrDgMCGgUABBQ//a="),
    ("/%61%7e", "/%61%7e"),
    ("/%7Ea?b=%7E", "/%7Ea?b=%7E"),
    ("/a%252fb", "/a%252fb"),
    ("/a%252e%252e/b", "/a%252e%252e/b"),
    ("/a%0d%0aX:y", "/a%0d%0aX:y"),
    ("/%c3%a9", "/%c3%a9"),
    ("/a;v=1/b", "/a;v=1/b"),
    ("/...", "/..."),
    ("/a?", "/a?"),
    ("/a?x=/../%2e%2f&y=//", "/a?x=/../%2e%2f&y=//"),
    ("/a?x=%0d%0a", "/a?x=%0d%0a"),
    ("/a?x=[1]{2}|3^", "/a?x=[1]{2}|3^"),
    ("http://localhost/a/../b?c", "/b?c"),
    ("http://localhost/a//b?c", "/a//b?c"),
    ("http://localhost", "/"),
    ("http://localhost?a", "/?a"),
];

#[test]
fn the_upstream_receives_the_spelling_of_the_client_unless_it_has_dot_segments() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for (sent, seen) in SPELLINGS {
        assert_eq!(client.request("GET", sent, &[], b"").status, 200, "{sent}");
        assert_eq!(upstream.targets().last().unwrap(), seen, "{sent}");
    }
}

#[test]
fn http2_clients_and_upstreams_send_and_receive_the_same_spellings() {
    let old = Upstream::start(|request| response(200, &[], request.target().as_bytes()));
    let new = Server::start(ServerProtocol::plain(), |request| {
        let target = request.uri().path_and_query().unwrap().to_string();
        Box::pin(async move { answer(target) })
    });
    for (uri, http2) in [(old.uri(), "off"), (new.uri("http"), "prior-knowledge")] {
        let route = format!("{{id: a, uri: '{uri}', http2: {http2}, predicates: [Path=/**]}}");
        let gateway = Gateway::start(&format!("routes: [{route}]"));
        let (mut client, mut raw) = (gateway.connect(), Raw::open(&gateway));
        for (stream, (sent, seen)) in (1..).step_by(2).zip(SPELLINGS) {
            assert_eq!(client.request("GET", sent, &[], b"").text(), seen, "{sent} to {http2}");
            if sent.starts_with('/') {
                raw.headers(stream, END_STREAM, &[&ORDINARY[..3], &[(":path", sent)]].concat());
                assert_eq!(
                    raw.until(&[DATA, RST_STREAM, GOAWAY]),
                    (DATA, seen.into()),
                    "{sent} over HTTP/2 to {http2}"
                );
            }
        }
    }
}

#[test]
fn a_spelling_is_matched_counted_and_logged_by_its_normal_form() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let upstream = Upstream::ok("reached");
    let limit = "{name: RequestRateLimiter, args: {algorithm: fixed-window, limit: 2, window: 1h, key-resolver: path}}";
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, path: {{encoded-slash: keep}}}}\n\
         access-log: {{output: '{}', format: json}}\n\
         routes: [{{id: limited, uri: '{uri}', predicates: [Path=/a/~b], filters: [{limit}]}}, \
         {{id: stripped, uri: '{uri}', predicates: [Path=/strip/**], filters: [StripPrefix=1]}}, \
         {{id: queried, uri: '{uri}', predicates: [Path=/query/**], filters: ['AddRequestParameter=x,y']}}, \
         {{id: forwarding, uri: 'forward:/query/z', predicates: [Path=/forward/**]}}, \
         {{id: retrying, uri: '{uri}', predicates: [Path=/retry/**], filters: [Retry=1]}}, \
         {{id: open, uri: '{uri}', predicates: [Path=/**]}}]",
        log.display(),
        uri = upstream.uri(),
    ));
    let get = |path: &str| gateway.get(path).status;
    assert_eq!(["/a/%7Eb", "//a//%7eb", "/a/~b", "/a//~b", "/%61/~b"].map(get), [200, 200, 429, 429, 429]);
    assert_eq!(upstream.targets(), ["/a/%7Eb", "//a//%7eb"]);
    for (sent, seen) in [
        // A filter that edits the path starts from the normal form; others leave the spelling.
        ("/strip//a/%7Eb", "/a/~b"),
        ("/query//a/%7Eb?c", "/query//a/%7Eb?c&x=y"),
        ("/forward//x", "/query/z?x=y"),
        ("/retry//x", "/retry//x"),
        ("/x%2f%7E", "/x%2f%7E"),
    ] {
        assert_eq!(get(sent), 200, "{sent}");
        assert_eq!(upstream.targets().last().unwrap(), seen, "{sent}");
    }
    eventually("all are logged", || std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 10));
    let text = std::fs::read_to_string(&log).unwrap();
    let targets: Vec<_> =
        text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["target"].clone()).collect();
    assert_eq!(targets[..5], ["/a/~b"; 5]);
    assert_eq!(targets[5..], ["/strip/a/~b", "/query/a/~b?c", "/forward/x", "/retry/x", "/x%2F~"]);
}

#[test]
fn a_cached_response_is_for_its_spelling() {
    let upstream = Upstream::start(|request| response(200, &[], request.target().as_bytes()));
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [LocalResponseCache=5m]}}]",
        upstream.uri()
    ));
    for _ in 0..2 {
        for path in ["/a//b", "/a/b", "/a/%62"] {
            assert_eq!(gateway.get(path).text(), path);
        }
    }
    assert_eq!(upstream.requests().len(), 3);
    // A change in any spelling invalidates the responses to all.
    for (at, changed) in ["/a/%62", "/a/b", "/a//b"].into_iter().enumerate() {
        assert_eq!(gateway.connect().request("DELETE", changed, &[], b"").status, 200);
        for path in ["/a//b", "/a/b", "/a/%62"] {
            assert_eq!(gateway.get(path).text(), path);
        }
        assert_eq!(upstream.requests().len(), 7 + 4 * at, "{changed}");
    }
}

#[test]
fn bytes_of_a_query_that_must_be_encoded_are_forwarded_encoded() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for (sent, seen) in [
        (&b"/a?q=\"x\""[..], "/a?q=%22x%22"),
        (b"/a?<b>=<c>&d=%3C", "/a?%3Cb%3E=%3Cc%3E&d=%3C"),
        (b"/a?q=caf\xe9", "/a?q=caf%E9"),
        (b"/a?q=caf\xc3\xa9", "/a?q=caf%C3%A9"),
        (b"//a?\xff", "//a?%FF"),
        (b"/a?x=\xf0\x9f\x98\x80\"", "/a?x=%F0%9F%98%80%22"),
        (b"http://localhost/a?\"", "/a?%22"),
    ] {
        // Twice on one connection, whole and in two pieces.
        let head =
            [b"POST ", sent, b" HTTP/1.1\r\nHost: localhost\r\nX: \"<\xe9>\"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\"<>\xe9\r\n0\r\n\r\n"]
                .concat();
        for cut in [head.len(), 5 + sent.len() / 2, 5 + sent.len()] {
            let (first, second) = head.split_at(cut);
            client.send(first);
            if !second.is_empty() {
                std::thread::yield_now();
                client.send(second);
            }
            assert_eq!(
                client.read_response_to("POST").map(|answer| answer.status),
                Some(200),
                "{}",
                sent.escape_ascii()
            );
            let request = upstream.requests().pop().unwrap();
            assert_eq!((request.target(), &*request.body), (seen, &b"\"<>\xe9"[..]), "{}", sent.escape_ascii());
        }
    }
}

/// The `h2` crate refuses a `:path` that the `http` crate does not parse, and a connection with one that is not UTF-8.
#[test]
fn bytes_of_a_query_that_must_be_encoded_are_refused_over_http2_unless_they_are_utf8() {
    const PROTOCOL_ERROR: [u8; 4] = [0, 0, 0, 1];
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = Raw::open(&gateway);
    let paths = [&b"/a?q=\"x\""[..], b"/a?<b", b"/a?b>", "/a?q=caf\u{e9}".as_bytes(), b"/a?q=%22", b"/a?q=caf\xe9"];
    let outcomes = [RST_STREAM, RST_STREAM, RST_STREAM, HEADERS, HEADERS, GOAWAY];
    for (stream, (path, outcome)) in (1..).step_by(2).zip(paths.into_iter().zip(outcomes)) {
        let mut head = block(&[&ORDINARY[..3], &[(":path", "")]].concat());
        head.pop();
        head.push(u8::try_from(path.len()).unwrap());
        client.frame(HEADERS, END_HEADERS | END_STREAM, stream, &[&head, path].concat());
        let (kind, payload) = client.until(&[HEADERS, RST_STREAM, GOAWAY]);
        assert_eq!(kind, outcome, "{}", path.escape_ascii());
        match kind {
            HEADERS => assert_eq!(payload[0], OK),
            _ => assert!(payload.ends_with(&PROTOCOL_ERROR), "{payload:?}"),
        }
    }
    assert_eq!(upstream.targets(), ["/a?q=caf%C3%A9", "/a?q=%22"]);
}

#[test]
fn bytes_behind_a_part_of_a_head_are_not_encoded() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 24\r\n");
    assert_eq!(client.response().unwrap().status, 200);
    // hyper has the first part of the second head.
    client.send("Referer: http://a/?q=\"x\"\r\n\r\n");
    std::thread::yield_now();
    let body = "{\"q\":\"?\",\"x\":\"y\",\"z\":12}";
    client.send(body);
    assert_eq!(client.response().unwrap().status, 200);
    let request = upstream.requests().pop().unwrap();
    assert_eq!(request.header("referer"), Some("http://a/?q=\"x\""));
    assert_eq!(request.body, body.as_bytes());
}
