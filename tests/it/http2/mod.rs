//! HTTP/2 with prior knowledge: translation to HTTP/1.1 upstreams, malformed requests and malicious frames.

mod abuse;
mod client;
mod conformance;
mod malformed;
pub(crate) mod raw;
mod resets;
mod uploads;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::mpsc;

use crate::support::gateway::Gateway;
use crate::support::raw_http2::{RawHttp2, fields};
use crate::support::upstream::{Upstream, response};

/// Connects; the connection's task ends with the runtime.
pub(crate) async fn connect<B>(gateway: &Gateway) -> SendRequest<B>
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
pub(crate) struct Fed(pub(crate) mpsc::Receiver<Frame<Bytes>>);

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
    assert_eq!(seen.line, "GET /a//b?c=d HTTP/1.1");
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

#[test]
fn interim_responses_of_the_upstream_reach_the_client() {
    let upstream = Upstream::scripted(|stream, seen| {
        while let Some(request) = crate::support::upstream::read_request(stream) {
            seen(request);
            let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x\r\n\r\n";
            let bytes = [b"HTTP/1.1 100 Continue\r\n\r\n", hints.as_bytes(), &response(200, &[], b"ok")].concat();
            let _ = std::io::Write::write_all(stream, &bytes);
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = client::Client::open(&client::Transport::Clear(gateway.address));
    client.frame(raw::HEADERS, raw::END_STREAM | raw::END_HEADERS, 1, &raw::block(&raw::ORDINARY));
    assert_eq!([client.status(1), client.status(1)], [Some(103), Some(200)]);
}

#[test]
fn interim_responses_of_an_http2_upstream_reach_the_client() {
    let (go_on, gate) = std::sync::mpsc::channel();
    let gate = std::sync::Mutex::new(gate);
    let upstream = RawHttp2::upstream(move |connection| {
        while let Some((stream, _)) = connection.request() {
            let hint = fields(&[(":status", "103"), ("link", "</a.css>; rel=preload")]);
            connection.frame(raw::HEADERS, raw::END_HEADERS, stream, &hint).flush();
            gate.lock().unwrap().recv().unwrap();
            connection.respond(stream, b"ok").flush();
        }
    });
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', http2: prior-knowledge, predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = client::Client::open(&client::Transport::Clear(gateway.address));
    client.frame(raw::HEADERS, raw::END_STREAM | raw::END_HEADERS, 1, &raw::block(&raw::ORDINARY));
    assert_eq!(client.status(1), Some(103), "before the response exists");
    go_on.send(()).unwrap();
    assert_eq!(client.status(1), Some(200));
}
