//! HTTP/2 to upstreams: one connection for many requests, and requests that race with GOAWAY or resets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Semaphore;
use tollgate_test_support::Certificates;

use crate::support::gateway::Gateway;
use crate::support::secure::{Frames, Keys, Server, ServerProtocol, answer};

fn prior_knowledge(uri: &str, rest: &str) -> Gateway {
    Gateway::start(&format!("routes: [{{id: a, uri: '{uri}', http2: prior-knowledge, predicates: [Path=/**]{rest}}}]"))
}

/// Sends `count` concurrent requests, each on its own connection.
fn at_once(gateway: &Gateway, requests: usize) -> Vec<u16> {
    let asking: Vec<_> = (0..requests)
        .map(|n| {
            let address = gateway.address;
            std::thread::spawn(move || crate::support::client::get(address, &format!("/{n}")).status)
        })
        .collect();
    asking.into_iter().map(|asking| asking.join().unwrap()).collect()
}

#[test]
fn the_upstream_chooses_http_2_and_all_requests_share_a_connection() {
    let made = Certificates::new();
    let both = Server::echoing(ServerProtocol::tls(Keys::of(&made), &["h2", "http/1.1"]));
    let old = Server::echoing(ServerProtocol::tls(Keys::of(&made), &["http/1.1"]));
    let silent = Server::echoing(ServerProtocol::tls(Keys::of(&made), &[]));
    let clear = Server::echoing(ServerProtocol::plain());
    let gateway = Gateway::start(&format!(
        "httpclient: {{tls: {{ca: {}}}}}\nroutes:\n\
         - {{id: both, uri: '{}', predicates: [Path=/both]}}\n\
         - {{id: old, uri: '{}', predicates: [Path=/old]}}\n\
         - {{id: silent, uri: '{}', predicates: [Path=/silent]}}\n\
         - {{id: off, uri: '{}', http2: off, predicates: [Path=/off]}}\n\
         - {{id: clear, uri: '{}', predicates: [Path=/clear]}}\n\
         - {{id: h2c, uri: '{}', metadata: {{http2: prior-knowledge}}, predicates: [Path=/h2c]}}\n\
         - {{id: kept, uri: '{}', http2: prior-knowledge, predicates: [Path=/kept], filters: [PreserveHostHeader]}}\n",
        made.ca().display(),
        both.uri("https"),
        old.uri("https"),
        silent.uri("https"),
        both.uri("https"),
        clear.uri("http"),
        clear.uri("http"),
        clear.uri("http"),
    ));
    let host = |server: &Server| format!("localhost:{}", server.address.port());
    for (path, expected) in [
        ("/both", format!("HTTP/2.0 GET https://{}/both host=-", host(&both))),
        ("/old", format!("HTTP/1.1 GET /old host={}", host(&old))),
        ("/silent", format!("HTTP/1.1 GET /silent host={}", host(&silent))),
        ("/off", format!("HTTP/1.1 GET /off host={}", host(&both))),
        ("/clear", format!("HTTP/1.1 GET /clear host={}", host(&clear))),
        ("/h2c", format!("HTTP/2.0 GET http://{}/h2c host=-", host(&clear))),
        ("/kept", "HTTP/2.0 GET http://shop.example:81/kept host=-".to_owned()),
    ] {
        let answer =
            gateway.connect().request("GET", path, &[("Host", "shop.example:81"), ("Connection", "keep-alive")], b"");
        assert_eq!(answer.text(), expected, "{path}: {}", gateway.log());
    }
    for _ in 0..20 {
        assert_eq!(gateway.get("/both").status, 200);
    }
    assert_eq!((both.connections(), both.protocols()), (2, vec!["h2".to_owned(), "http/1.1".to_owned()]));
}

#[test]
fn connection_fields_are_removed_and_bodies_are_forwarded() {
    let server = Server::start(ServerProtocol::plain(), |request| {
        Box::pin(async move {
            let fields: Vec<String> = request.headers().keys().map(ToString::to_string).collect();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut echoed = Response::new(Full::new(body).boxed());
            echoed.headers_mut().insert("x-seen", HeaderValue::from_str(&fields.join(" ")).unwrap());
            echoed
        })
    });
    let gateway = prior_knowledge(&server.uri("http"), "");
    let large = vec![b'x'; 1 << 20];
    let fields = [("Connection", "x-hop"), ("X-Hop", "1"), ("TE", "trailers"), ("Keep-Alive", "a"), ("Cookie", "a=1")];
    let mut client = gateway.connect();
    let answer = client.request("POST", "/x", &fields, &large);
    assert_eq!((answer.status, answer.body == large, answer.complete), (200, true, true));
    let seen = answer.header("x-seen").unwrap();
    assert!(seen.split(' ').all(|name| ["te", "cookie", "content-length", "via"].contains(&name)), "{seen}");
    client.send("PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let answer = client.response().unwrap();
    assert_eq!((answer.text().as_str(), answer.header("x-seen")), ("hello", Some("via")));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn grpc_is_forwarded_with_trailers() {
    let server = Server::start(ServerProtocol::plain(), |request| {
        Box::pin(async move {
            assert_eq!(request.headers()["te"], "trailers");
            let sent = request.into_body().collect().await.unwrap();
            let asked =
                sent.trailers().map_or(HeaderValue::from_static("none"), |trailers| trailers["x-asked"].clone());
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            trailers.insert("x-asked", asked);
            let frames = Frames::of([Frame::data(sent.to_bytes()), Frame::trailers(trailers)]);
            let mut response = Response::new(frames.boxed());
            response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
            response
        })
    });
    let gateway = prior_knowledge(&server.uri("http"), "");
    let stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-asked", HeaderValue::from_static("yes"));
        let frames = Frames::of([Frame::data(Bytes::from_static(b"\0\0\0\0\x02hi")), Frame::trailers(trailers)]);
        let request = Request::post("http://a/shop.Orders/Place")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(frames)
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/grpc");
        let collected = response.into_body().collect().await.unwrap();
        let trailers = collected.trailers().unwrap();
        assert_eq!((&trailers["grpc-status"], &trailers["x-asked"]), (&"0".parse().unwrap(), &"yes".parse().unwrap()));
        assert_eq!(collected.to_bytes(), "\0\0\0\0\x02hi");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn requests_beyond_the_stream_limit_open_more_connections() {
    let gate = Arc::new(Semaphore::new(0));
    let arrived = Arc::new(AtomicUsize::new(0));
    let (opened, counted) = (Arc::clone(&gate), Arc::clone(&arrived));
    let server = Server::start(ServerProtocol { max_streams: 2, ..ServerProtocol::plain() }, move |request| {
        let (opened, counted) = (Arc::clone(&opened), Arc::clone(&counted));
        Box::pin(async move {
            if request.uri().path() == "/held" {
                counted.fetch_add(1, SeqCst);
                let _ = opened.acquire().await;
            }
            answer("ok")
        })
    });
    let gateway = prior_knowledge(&server.uri("http"), "");
    let mut held = Vec::new();
    for connections in 1..=3 {
        // After the first response the settings have arrived; the connection then uses all streams that they allow.
        assert_eq!(gateway.get("/x").status, 200);
        assert_eq!(server.connections(), connections);
        for _ in 0..2 {
            let address = gateway.address;
            held.push(std::thread::spawn(move || crate::support::client::get(address, "/held").status));
        }
        crate::support::eventually("they are with the upstream", || arrived.load(SeqCst) == 2 * connections);
    }
    gate.add_permits(100);
    assert!(held.into_iter().all(|one| one.join().unwrap() == 200));
    assert_eq!(server.connections(), 3);
}

#[test]
fn a_goaway_fails_no_request() {
    let server = Server::echoing(ServerProtocol { goes_after: 5, ..ServerProtocol::plain() });
    let gateway = prior_knowledge(&server.uri("http"), "");
    let mut client = gateway.connect();
    for n in 0..30 {
        let answer = client.request("POST", "/x", &[], format!("{n}").as_bytes());
        assert_eq!(answer.status, 200, "{n}: {}", gateway.log());
    }
    assert!((2..=30).contains(&server.connections()), "{}", server.connections());
    assert!(at_once(&gateway, 20).iter().all(|status| *status == 200), "{}", gateway.log());
}

/// Upstream at frame level: handles the streams of its connections, numbered from 0.
fn framed(
    script: impl Fn(usize, Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) + Send + Sync + 'static,
) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (script, count) = (Arc::new(script), Arc::new(AtomicUsize::new(0)));
            while let Ok((stream, _)) = listener.accept().await {
                let (script, count) = (Arc::clone(&script), Arc::clone(&count));
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        script(count.fetch_add(1, SeqCst), request, respond);
                    }
                });
            }
        });
    });
    address
}

#[test]
fn a_refused_stream_is_retried_and_a_reset_one_only_if_idempotent() {
    let address = framed(|n, request, mut respond| {
        let path = request.uri().path().to_owned();
        if path == "/refused" && n % 2 == 0 {
            respond.send_reset(h2::Reason::REFUSED_STREAM);
        } else if path == "/broken" {
            respond.send_reset(h2::Reason::INTERNAL_ERROR);
        } else {
            let _ = respond.send_response(Response::new(()), true);
        }
    });
    let gateway = prior_knowledge(&format!("http://{address}"), "");
    for method in ["GET", "POST", "PATCH"] {
        let answer = gateway.connect().request(method, "/refused", &[("Content-Length", "0")], b"");
        assert_eq!(answer.status, 200, "{method}: {}", gateway.log());
    }
    assert_eq!(gateway.connect().request("POST", "/broken", &[("Content-Length", "0")], b"").status, 502);
    assert_eq!(gateway.get("/broken").status, 502, "twice, and no more");
    assert_eq!(gateway.get("/other").status, 200, "the connection is in order");
}

#[test]
fn a_silent_stream_becomes_504_and_its_connection_stays_open() {
    let server = Server::start(ServerProtocol::plain(), |request| {
        Box::pin(async move {
            if request.uri().path() == "/silent" {
                std::future::pending::<()>().await;
            }
            answer("spoken")
        })
    });
    let gateway = prior_knowledge(&server.uri("http"), ", metadata: {response-timeout: 200}");
    assert_eq!(gateway.get("/silent").status, 504);
    assert_eq!(gateway.get("/x").text(), "spoken");
    assert_eq!(server.connections(), 1);
}

/// Leaves `count` responses of an upstream unread, which allows any number of streams. Returns the number of its connections,
/// after requests of other clients.
fn leave_unread(count: usize) -> usize {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = Server::start(ServerProtocol { max_streams: 10_000, ..ServerProtocol::plain() }, move |request| {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            if request.uri().path() == "/x" {
                return answer("short");
            }
            counted.fetch_add(1, SeqCst);
            Response::new(Frames::Endless.boxed())
        })
    });
    let gateway = prior_knowledge(&server.uri("http"), "");
    assert_eq!(gateway.get("/x").text(), "short");
    let mut lazy: Vec<_> = (0..count).map(|_| gateway.connect()).collect();
    for client in &mut lazy {
        client.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    crate::support::eventually("all are requested", || asked.load(SeqCst) == count);
    for _ in 0..5 {
        assert_eq!(gateway.get("/x").text(), "short");
    }
    server.connections()
}

#[test]
fn unread_responses_do_not_block_other_streams() {
    assert_eq!(leave_unread(10), 1);
}

#[test]
fn no_number_of_unread_responses_blocks_other_streams() {
    assert_eq!(leave_unread(300), 2, "the window of a connection has room for 256 streams");
}
