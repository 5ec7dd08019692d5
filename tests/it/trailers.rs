//! Trailers: which pass, and which no recipient may see.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};

use http_body_util::BodyExt;

use crate::http2::raw::{DATA, END_STREAM, HEADERS, OK, ORDINARY, RST_STREAM, Raw};
use crate::support::gateway::Gateway;
use crate::support::raw_http2::{RawHttp2, fields};
use crate::support::secure::{Server, ServerProtocol, answer};
use crate::support::upstream::{Upstream, response};

/// Fields of a client that its head may not have either, and one that passes.
const REQUEST: [(&str, &str); 5] =
    [("x-forwarded-for", "6.6.6.6"), ("x_user", "root"), ("host", "evil"), ("content-length", "9"), ("x-sum", "42")];

/// Sends a request with the trailers over HTTP/2.
fn send(gateway: &Gateway) -> Raw {
    let mut client = Raw::open(gateway);
    client.headers(
        1,
        0,
        &[&[(":method", "POST")], &ORDINARY[1..], &[("trailer", "x-forwarded-for, x_user, x-sum")]].concat(),
    );
    client.frame(DATA, 0, 1, b"abc");
    client.headers(1, END_STREAM, &REQUEST);
    assert_eq!(client.outcome().0, HEADERS);
    client
}

/// Starts an upstream that reports the bytes of each request with trailers.
fn reporting_upstream() -> (Upstream, Receiver<String>) {
    let (report, reported) = channel();
    let upstream = Upstream::scripted(move |stream, _| {
        let (mut bytes, mut byte) = (Vec::new(), [0]);
        while stream.read_exact(&mut byte).is_ok() {
            bytes.push(byte[0]);
            // The last chunk, and the trailers after it.
            if bytes.windows(5).any(|end| end == b"\r\n0\r\n") && bytes.ends_with(b"\r\n\r\n") {
                report.send(String::from_utf8(std::mem::take(&mut bytes)).unwrap()).unwrap();
                stream.write_all(&response(200, &[], b"ok")).unwrap();
            }
        }
    });
    (upstream, reported)
}

/// A key, a plan, a cost, a token, fields of predicates and filters, and one that passes.
const CHECKED: [&str; 14] = [
    "x-key",
    "x-plan",
    "x-cost",
    "x-slots",
    "x-used",
    "x-token",
    "x-tenant",
    "x-version",
    "x-cf-proxy-metadata",
    "accept",
    "x-role",
    "x-copied",
    "x-internal",
    "x-sum",
];

const CHECKING: &str = "
api-version: {use: {header: X-Version, media-type-parameter: {application/json: version}}}
request-id: {enabled: true}
jwt: {jwks: JWKS, header: X-Token, algorithms: [HS256], audience: a}
routes:
  - id: a
    uri: UPSTREAM
    predicates: [Path=/**, {any: [{not: {all: ['Header=X-Tenant, none']}}]}, Version=1.0, {not: {name: CloudFoundryRouteService}}]
    filters:
      - SetRequestHeader=X-Role, user
      - MapRequestHeader=X-Role, X-Copied
      - RemoveRequestHeader=X-Internal
      - {name: RequestRateLimiter, args: {key-resolver: 'header:X-Key', deny-empty-key: false, plan-resolver: 'header:X-Plan',
         default-plan: free, plans: {free: {replenish-rate: 100, burst-capacity: 100, cost: 'header:X-Cost'}}}}
      - {name: RequestRateLimiter, args: {key-resolver: 'jwt:sub', deny-empty-key: false, replenish-rate: 100, burst-capacity: 100}}
      - {name: ConcurrencyLimiter, args: {key-resolver: 'header:X-Slots', deny-empty-key: false, limit: 5}}
      - {name: RequestCounter, args: {key-resolver: 'header:X-Used'}}
";

#[test]
fn trailers_of_a_client_carry_no_field_that_a_route_reads_or_sets() {
    let (upstream, reported) = reporting_upstream();
    let keys = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(keys.path(), r#"{"keys":[{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U"}]}"#)
        .unwrap();
    let gateway =
        Gateway::start(&CHECKING.replace("UPSTREAM", &upstream.uri()).replace("JWKS", keys.path().to_str().unwrap()));
    let names = [&CHECKED[..], &["x-request-id"]].concat();
    let trailers: Vec<_> = names.iter().map(|name| (*name, "1")).collect();
    let announced = names.join(", ");
    let mut client = Raw::open(&gateway);
    let more = [("x-version", "1.0"), ("trailer", "x-sum, x-key, x-cf-proxy-metadata")];
    client.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..], &more].concat());
    client.frame(DATA, 0, 1, b"abc");
    client.headers(1, END_STREAM, &trailers);
    assert_eq!(client.outcome(), (HEADERS, OK));
    let mut client = gateway.connect();
    client.send(format!(
        "POST /x HTTP/1.1\r\nHost: a\r\nX-Version: 1.0\r\nTrailer: {announced}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
    ));
    client.send(trailers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>() + "\r\n");
    assert_eq!(client.response().unwrap().status, 200);
    let requests: Vec<_> = reported.try_iter().collect();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(request.ends_with("\r\n3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n"), "{request}");
    }
}

#[test]
fn trailers_of_a_client_carry_no_field_that_its_head_may_not_have() {
    let (upstream, reported) = reporting_upstream();
    let gateway = Gateway::to(&upstream.uri());
    send(&gateway);
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nTrailer: x-forwarded-for, x_user, x-sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n");
    client.send(REQUEST.map(|(name, value)| format!("{name}: {value}\r\n")).concat() + "\r\n");
    assert_eq!(client.response().unwrap().status, 200);
    for request in reported.try_iter() {
        assert!(request.ends_with("\r\n3\r\nabc\r\n0\r\nx-sum: 42\r\n\r\n"), "{request}");
    }
}

#[test]
fn trailers_to_an_http2_upstream_carry_no_field_that_the_head_may_not_have() {
    let (report, reported) = std::sync::mpsc::channel();
    let upstream = RawHttp2::upstream(move |connection| {
        let Some((stream, _)) = connection.request() else { return };
        while let Some(frame) = connection.next() {
            if frame.kind == HEADERS {
                report.send(frame.payload).unwrap();
                connection.respond(stream, b"ok").flush();
            }
        }
    });
    let uri = upstream.uri();
    let gateway =
        Gateway::start(&format!("routes: [{{id: a, uri: '{uri}', http2: prior-knowledge, predicates: [Path=/**]}}]"));
    send(&gateway);
    let trailers = reported.recv().unwrap();
    let has = |text: &str| trailers.windows(text.len()).any(|part| part == text.as_bytes());
    // One short field, coded or not.
    assert!(!has("x_user") && (1..20).contains(&trailers.len()), "{trailers:?}");
}

#[test]
fn trailers_to_an_http2_upstream_carry_no_key_of_a_limiter() {
    let upstream = Server::start(ServerProtocol::plain(), |request| {
        Box::pin(async move {
            let sent = request.into_body().collect().await.unwrap();
            answer(sent.trailers().map_or_else(String::new, |trailers| {
                trailers.keys().map(http::HeaderName::as_str).collect::<Vec<_>>().join(" ")
            }))
        })
    });
    let limiter =
        "{name: RequestRateLimiter, args: {replenish-rate: 100, burst-capacity: 100, key-resolver: 'header:X-Key'}}";
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', http2: prior-knowledge, predicates: [Path=/**], filters: [{limiter}]}}]",
        upstream.uri("http")
    ));
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nX-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n");
    client.send("X-Key: other\r\nX-Sum: 42\r\n\r\n");
    assert_eq!(client.response().unwrap().text(), "x-sum");
    let mut raw = Raw::open(&gateway);
    raw.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..], &[("x-key", "k")]].concat());
    raw.frame(DATA, 0, 1, b"abc");
    raw.headers(1, END_STREAM, &[("x-key", "other"), ("x-sum", "42")]);
    assert_eq!(raw.until(&[DATA, RST_STREAM]), (DATA, b"x-sum".to_vec()));
}

#[test]
fn trailers_of_an_upstream_neither_frame_nor_close_the_connection_of_the_client() {
    let upstream = Upstream::start(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Connection\r\n\r\n2\r\nok\r\n0\r\n\
          X-Sum: 42\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            .into()
    });
    let gateway = Gateway::to(&upstream.uri());
    let answer = gateway.connect().request("GET", "/x", &[("TE", "trailers")], b"");
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "42".to_owned())]);
    let mut client = Raw::open(&gateway);
    client.headers(1, END_STREAM, &[&ORDINARY[..], &[("te", "trailers")]].concat());
    assert_eq!(client.outcome().0, HEADERS);
    assert_eq!(client.until(&[HEADERS, RST_STREAM]).0, HEADERS, "the response is whole");
}

#[test]
fn a_repeated_length_is_one_field() {
    let upstream = Upstream::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok".into());
    let gateway = Gateway::to(&upstream.uri());
    let mut client = Raw::open(&gateway);
    let length = ("content-length", "3");
    client.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..], &[length, length]].concat());
    client.frame(DATA, END_STREAM, 1, b"abc");
    let (kind, head) = client.until(&[HEADERS, RST_STREAM]);
    assert_eq!(kind, HEADERS);
    assert_eq!(upstream.requests()[0].all("content-length"), ["3"]);
    // The name's index in HPACK's static table.
    assert_eq!(head.windows(2).filter(|bytes| *bytes == [15, 13]).count(), 1, "{head:?}");
}

#[test]
fn a_response_without_content_has_no_data_over_http2() {
    for status in ["204", "304"] {
        let upstream = RawHttp2::upstream(move |connection| {
            while let Some((stream, _)) = connection.request() {
                connection
                    .frame(HEADERS, 4, stream, &fields(&[(":status", status)]))
                    .data(stream, END_STREAM, b"abc")
                    .flush();
            }
        });
        let uri = upstream.uri();
        let gateway = Gateway::start(&format!(
            "routes: [{{id: a, uri: '{uri}', http2: prior-knowledge, predicates: [Path=/**]}}]"
        ));
        let mut client = Raw::open(&gateway);
        client.headers(1, END_STREAM, &ORDINARY);
        assert_eq!(client.outcome().0, HEADERS);
        client.headers(3, END_STREAM, &ORDINARY);
        assert_eq!(client.until(&[DATA, HEADERS]).0, HEADERS, "{status}");
    }
}
