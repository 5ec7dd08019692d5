//! HTTP/2 with prior knowledge: translation to HTTP/1.1 upstreams, and malicious frames.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::mpsc;

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

/// Connects; the connection's task ends with the runtime.
async fn connect<B>(gateway: &Gateway) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn get(target: &str) -> Request<Empty<Bytes>> {
    Request::builder().uri(target).body(Empty::new()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Body with frames that a test sends one by one.
struct Fed(mpsc::Receiver<Frame<Bytes>>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

#[tokio::test]
async fn a_request_reaches_the_upstream_as_http_1_1() {
    let upstream = Upstream::start(|_| response(200, &[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], b"hello"));
    let gateway = Gateway::to(&upstream.uri());
    let mut client = connect(&gateway).await;
    let request = Request::builder()
        .uri("http://shop.example/a//b?c=d")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("cookie", "c=3; d=4")
        .header("te", "trailers")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let answer = client.send_request(request).await.unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, http::Version::HTTP_2));
    assert_eq!(answer.headers().get_all("set-cookie").iter().count(), 2);
    assert_eq!(text(answer).await, "hello");
    let seen = &upstream.requests()[0];
    assert_eq!(seen.line, "GET /a/b?c=d HTTP/1.1");
    assert_eq!(seen.all("cookie"), ["a=1; b=2; c=3; d=4"], "RFC 9113 §8.2.3");
    assert_eq!(seen.all("host"), [upstream.address.to_string()]);
    assert_eq!(seen.header("te"), Some("trailers"));
    assert_eq!(seen.header("content-length"), None);
    assert_eq!(seen.header("transfer-encoding"), None);
    assert!(seen.headers.iter().all(|(name, _)| !name.starts_with(':')), "{seen:?}");
}

#[tokio::test]
async fn an_upload_is_streamed_and_response_trailers_are_forwarded() {
    let upstream = Upstream::start(|request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: grpc-status\r\n\r\n";
        format!("{head}{:x}\r\n{body}\r\n0\r\ngrpc-status: 0\r\n\r\n", body.len()).into_bytes()
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = connect(&gateway).await;
    for _ in 0..2 {
        let (feed, fed) = mpsc::channel(1);
        let request = Request::builder().method("POST").uri("http://a/x").body(Fed(fed)).unwrap();
        let answering = client.send_request(request);
        let feeding = async move {
            for piece in ["one ", "two ", "three"] {
                feed.send(Frame::data(Bytes::from(piece))).await.unwrap();
            }
        };
        let (answer, ()) = tokio::join!(answering, feeding);
        let collected = answer.unwrap().into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(collected.to_bytes(), "one two three");
    }
    assert_eq!(upstream.requests()[0].body, b"one two three");
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn many_streams_are_served_concurrently() {
    let upstream = Upstream::start(|request| response(200, &[], request.target().as_bytes()));
    let gateway = Gateway::to(&upstream.uri());
    let client = connect(&gateway).await;
    let mut asking = tokio::task::JoinSet::new();
    for n in 0..300 {
        let mut client = client.clone();
        asking.spawn(async move {
            let answer = client.send_request(get(&format!("http://a/{n}"))).await.unwrap();
            assert_eq!(text(answer).await, format!("/{n}"));
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    assert_eq!(upstream.requests().len(), 300);
}

#[tokio::test]
async fn a_truncated_body_resets_only_its_stream() {
    let upstream = Upstream::scripted(|stream, seen| {
        let Some(request) = crate::support::upstream::read_request(stream) else { return };
        let broken = request.target() == "/broken";
        seen(request);
        let whole = response(200, &[], b"whole");
        let bytes = if broken { &whole[..whole.len() - 2] } else { &whole };
        let _ = std::io::Write::write_all(stream, bytes);
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = connect(&gateway).await;
    let broken = client.send_request(get("http://a/broken")).await.unwrap();
    let other = client.send_request(get("http://a/other")).await.unwrap();
    assert!(broken.into_body().collect().await.is_err(), "never a clean end");
    assert_eq!(text(other).await, "whole");
}

#[tokio::test]
async fn denials_and_failures_keep_the_connection_usable() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::filtering(
        &upstream.uri(),
        "[{name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 60, requested-tokens: 60, \
         key-resolver: 'header:x-key'}}]",
    );
    let mut client = connect(&gateway).await;
    for (key, status) in [("a", 200), ("a", 429), ("b", 200), ("b", 429), ("a", 429)] {
        let request = Request::builder().method("POST").uri("http://a/x").header("x-key", key);
        let answer = client.send_request(request.body(Full::new(Bytes::from("unread"))).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{key}");
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn an_authority_and_a_host_that_differ_are_refused() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = connect(&gateway).await;
    for (host, status) in [("b.example", 400), ("a.example", 200)] {
        let request = Request::builder().uri("http://a.example/x").header("host", host);
        let answer = client.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{host}");
    }
    let answer = client.send_request(get("http://a.example/a/../../b")).await.unwrap();
    assert_eq!(answer.status(), 400);
    assert_eq!(upstream.requests().len(), 1);
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// HTTP/2 as bytes (RFC 9113 §4.1), its fields without compression (RFC 7541 §6.2.2).
struct Raw(Connection);

impl Raw {
    fn open(gateway: &Gateway) -> Self {
        let mut client = gateway.connect();
        client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut raw = Self(client);
        raw.frame(4, 0, 0, &[]);
        raw
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        let _ = self.0.try_send([&head, payload].concat());
    }

    fn headers(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) {
        self.frame(HEADERS, flags | END_HEADERS, stream, &block(fields));
    }

    /// Returns the first frame that ends the request: a response head with its first byte, RST_STREAM or GOAWAY.
    fn outcome(&mut self) -> (u8, u8) {
        loop {
            let head = self.0.take(9);
            let [a, b, c, kind, ..] = head[..] else { return (GOAWAY, 0) };
            let payload = self.0.take(usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
            if [HEADERS, RST_STREAM, GOAWAY].contains(&kind) {
                return (kind, payload.first().copied().unwrap_or(0));
            }
        }
    }
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let length = u8::try_from(text.len()).unwrap();
            assert!(length < 127);
            block.push(length);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

const ORDINARY: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/x")];

/// `:status: 200` in HPACK's static table.
const OK: u8 = 0x88;

#[test]
fn malformed_requests_are_refused_and_not_forwarded() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let with = |extra: &[(&'static str, &'static str)]| [&ORDINARY[..], extra].concat();
    let cases = [
        with(&[("X-Upper", "y")]),
        with(&[("x y", "z")]),
        with(&[("x:y", "z")]),
        with(&[("", "z")]),
        with(&[("x", "a\r\nHost: b")]),
        with(&[("x", "a\nb")]),
        with(&[("x", "a\0b")]),
        with(&[("connection", "close")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("keep-alive", "1")]),
        with(&[("upgrade", "websocket")]),
        with(&[("te", "gzip")]),
        with(&[("content-length", "5")]),
        with(&[("content-length", "x")]),
        with(&[("host", "b")]),
        with(&[(":path", "/y")]),
        with(&[(":unknown", "y")]),
        with(&[(":protocol", "websocket")]),
        with(&[("x", "y"), (":authority", "b")]),
        vec![("x", "y"), (":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/x")],
        vec![(":scheme", "http"), (":authority", "a"), (":path", "/x")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "x")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a b")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a HTTP/1.1\r\nX: y")],
        vec![(":method", "GE T"), (":scheme", "http"), (":authority", "a"), (":path", "/x")],
        vec![(":method", "GET /y HTTP/1.1\r\n"), (":scheme", "http"), (":authority", "a"), (":path", "/x")],
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a@b"), (":path", "/x")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/x")],
    ];
    for fields in cases {
        let mut client = Raw::open(&gateway);
        client.headers(1, END_STREAM, &fields);
        let (kind, first) = client.outcome();
        assert!(kind != HEADERS || first != OK, "{fields:?}: {kind} {first:x}");
        assert_eq!(upstream.requests().len(), 0, "{fields:?}");
    }
    for (method, path) in [("CONNECT", "/x"), ("TRACE", "/x")] {
        let mut client = Raw::open(&gateway);
        client.headers(
            1,
            END_STREAM,
            &[(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)],
        );
        let (kind, first) = client.outcome();
        assert!(kind != HEADERS || first != OK, "{method}: {first:x}");
    }
    assert_eq!(upstream.requests().len(), 0);
    let mut client = Raw::open(&gateway);
    client.headers(1, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
}

#[test]
fn a_body_that_contradicts_its_length_is_not_completed_upstream() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    for (length, data) in [("3", "hello"), ("9", "hello"), ("0", "hello")] {
        let mut client = Raw::open(&gateway);
        client.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..], &[("content-length", length)]].concat());
        client.frame(0, END_STREAM, 1, data.as_bytes());
        let (kind, first) = client.outcome();
        assert!(kind != HEADERS || first != OK, "{length}: {first:x}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let large = "y".repeat(100);
    let fields: Vec<_> = (0..2000).map(|_| ("x", large.as_str())).collect();
    let fields = [&ORDINARY[..], &fields].concat();
    let mut client = Raw::open(&gateway);
    let block = block(&fields);
    let mut pieces = block.chunks(16_000);
    client.frame(HEADERS, END_STREAM, 1, pieces.next().unwrap());
    let count = pieces.len();
    for (n, piece) in pieces.enumerate() {
        client.frame(9, if n + 1 == count { END_HEADERS } else { 0 }, 1, piece);
    }
    let (kind, first) = client.outcome();
    assert!(kind != HEADERS || first != OK, "{first:x}");
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn an_endless_head_closes_the_connection() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = Raw::open(&gateway);
    client.frame(HEADERS, END_STREAM, 1, &block(&ORDINARY));
    let filler = block(&[("x", "y")]).repeat(1000);
    for sent in 0.. {
        assert!(sent < 100_000, "CONTINUATION frames without end");
        let length = u32::try_from(filler.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[9, 0], &1_u32.to_be_bytes()].concat();
        if client.0.try_send([&head[..], &filler].concat()).is_err() {
            break;
        }
    }
    assert_eq!(gateway.get("/next").status, 200);
    assert_eq!(upstream.targets(), ["/next"]);
}

#[test]
fn a_rapid_reset_attack_gets_goaway_or_is_survived() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let mut client = Raw::open(&gateway);
    for n in 0..20_000_u32 {
        let stream = 2 * n + 1;
        client.headers(stream, END_STREAM, &ORDINARY);
        client.frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    assert_eq!(gateway.get("/next").status, 200);
    drop(client);
    assert_eq!(gateway.get("/last").status, 200);
}

#[test]
fn floods_of_control_frames_do_not_block_other_connections() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    for (kind, flags, payload) in [(6, 0, vec![0; 8]), (4, 0, vec![]), (0, 0, vec![])] {
        let mut client = Raw::open(&gateway);
        client.headers(1, 0, &[&[(":method", "POST")], &ORDINARY[1..]].concat());
        let stream = u32::from(kind == 0);
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), &payload].concat();
        client.0.stream().set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        // The gateway stops reading or closes: it answers each request, and the client does not read the responses.
        for _ in 0..100 {
            if client.0.try_send(frame.repeat(1000)).is_err() {
                break;
            }
        }
        assert_eq!(gateway.get("/next").status, 200, "frames of kind {kind}");
    }
}

#[test]
fn a_client_that_does_not_read_responses_is_disconnected() {
    let upstream = Upstream::start(|_| response(200, &[], &[b'x'; 300_000]));
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, write-timeout: 300ms}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = Raw::open(&gateway);
    client.headers(1, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
    // 64 KB fill the window, which is never opened again; then the connection closes.
    client.0.rest();
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_ping_does_not_start_the_header_timeout_of_an_idle_connection() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, header-timeout: 200ms, idle-timeout: 60s}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = Raw::open(&gateway);
    client.headers(1, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
    client.frame(PING, 0, 0, &[0; 8]);
    std::thread::sleep(Duration::from_millis(600));
    client.headers(3, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
}
