//! Streams that an HTTP/2 upstream resets, frame by frame.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;

use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::support::PATIENCE;
use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::raw_http2::{
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, NO_ERROR, PING, REFUSED_STREAM, RST_STREAM, RawHttp2, WINDOW_UPDATE,
    fields,
};
use crate::support::upstream::Upstream;

fn gateway(uri: &str) -> Gateway {
    Gateway::start(&format!("routes: [{{id: a, uri: '{uri}', http2: prior-knowledge, predicates: [Path=/**]}}]"))
}

#[tokio::test]
async fn a_response_cut_with_no_error_is_seen_as_incomplete() {
    let upstream = RawHttp2::upstream(|connection| {
        while let Some((stream, _)) = connection.request() {
            connection.head(stream, 0).data(stream, 0, b"half").reset(stream, NO_ERROR).flush();
        }
    });
    let gateway = gateway(&upstream.uri());
    for method in ["GET", "POST"] {
        let mut client = gateway.connect();
        let response = client.request(method, "/x", &[], b"");
        assert_eq!((response.status, response.text().as_str()), (200, "half"), "{method}");
        assert!(!response.complete, "{method}");
        assert!(client.is_closed());
    }
    let stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://a/x").body(Empty::<bytes::Bytes>::new()).unwrap();
    // The reset may reach the client before the head.
    let is_cut = match client.send_request(request).await {
        Ok(response) => response.into_body().collect().await.is_err(),
        Err(_) => true,
    };
    assert!(is_cut, "the cut reaches clients of HTTP/2 as a reset");
}

#[test]
fn a_cut_without_a_part_of_the_body_is_seen_too() {
    let upstream = RawHttp2::upstream(|connection| {
        while let Some((stream, _)) = connection.request() {
            connection.head(stream, 0).reset(stream, NO_ERROR).flush();
        }
    });
    let gateway = gateway(&upstream.uri());
    assert_eq!(gateway.get("/x").status, 502);
}

#[test]
fn a_complete_response_stays_whole_if_no_error_stops_the_upload() {
    let upstream = RawHttp2::upstream(|connection| {
        let mut count = 0;
        while let Some((stream, _)) = connection.request() {
            count += 1;
            if count % 2 == 0 {
                connection.respond(stream, b"whole");
            } else {
                let trailers = fields(&[("x-sum", "1")]);
                connection.head(stream, 0).data(stream, 0, b"whole");
                connection.frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers);
            }
            connection.reset(stream, NO_ERROR).flush();
        }
    });
    let gateway = gateway(&upstream.uri());
    for n in 0..6 {
        let mut client = gateway.connect();
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 1000\r\n\r\nfirst part");
        let response = client.response().unwrap();
        assert_eq!((response.status, response.text().as_str(), response.complete), (200, "whole", true), "{n}");
    }
}

/// Upstream that echoes request bodies and announces the end of its connections at the 50th request. One frame names the
/// last stream at once. Of two frames, the second does so after a round trip.
fn going_away(frames: usize) -> Upstream {
    RawHttp2::upstream(move |connection| {
        let mut bodies = HashMap::new();
        let (mut count, mut latest, mut last) = (0, 0, u32::MAX);
        while let Some(frame) = connection.next() {
            if frame.kind == HEADERS && frame.stream <= last {
                bodies.insert(frame.stream, Vec::new());
                (count, latest) = (count + 1, frame.stream);
                if count == 50 && frames == 1 {
                    last = latest;
                    connection.go_away(last, NO_ERROR);
                } else if count == 50 {
                    connection.go_away(i32::MAX.unsigned_abs(), NO_ERROR).frame(PING, 0, 0, &[7; 8]);
                }
            } else if frame.kind == DATA {
                bodies.entry(frame.stream).and_modify(|body: &mut Vec<u8>| body.extend(frame.payload));
            } else if frame.kind == PING && frame.flags & ACK != 0 {
                last = latest;
                connection.go_away(last, NO_ERROR);
            }
            if [HEADERS, DATA].contains(&frame.kind)
                && frame.flags & END_STREAM != 0
                && let Some(body) = bodies.remove(&frame.stream)
            {
                connection.respond(frame.stream, &body);
            }
            connection.flush();
        }
    })
}

#[test]
fn no_request_fails_while_an_upstream_closes_its_connections_gracefully() {
    for frames in [1, 2] {
        let upstream = going_away(frames);
        let gateway = gateway(&upstream.uri());
        let clients: Vec<_> = (0..24)
            .map(|n| {
                let address = gateway.address;
                std::thread::spawn(move || {
                    let mut client = Connection::open(address);
                    (0..50).for_each(|m| {
                        let (method, body) =
                            if (n + m) % 2 == 0 { ("POST", vec![b'x'; 10 * m]) } else { ("GET", vec![]) };
                        let response = client.request(method, "/x", &[], &body);
                        assert_eq!((response.status, response.body == body), (200, true), "{method} {frames}");
                    });
                })
            })
            .collect();
        let failed = clients.into_iter().map(std::thread::JoinHandle::join).filter(Result::is_err).count();
        assert_eq!(failed, 0, "{}", gateway.log());
        assert!(upstream.connections() >= 10, "{} connections with {frames} frames", upstream.connections());
    }
}

/// Upstream that refuses every other stream, after the whole request or after its head, and echoes the rest. Counts the
/// refusals.
fn refusing(after_body: bool) -> (Upstream, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let upstream = RawHttp2::upstream(move |connection| {
        let (mut refused, mut body) = (None, Vec::new());
        while let Some(frame) = connection.next() {
            let is_end = frame.flags & END_STREAM != 0;
            match frame.kind {
                HEADERS if refused.is_none() => {
                    body.clear();
                    if !after_body || is_end {
                        refused = Some(frame.stream);
                        counted.fetch_add(1, SeqCst);
                        connection.reset(frame.stream, REFUSED_STREAM);
                    }
                }
                DATA if refused.is_none() && is_end => {
                    refused = Some(frame.stream);
                    connection.reset(frame.stream, REFUSED_STREAM);
                }
                DATA if refused.is_some_and(|refused| refused < frame.stream) => body.extend(frame.payload),
                _ => {}
            }
            if refused.is_some_and(|refused| refused < frame.stream) && is_end && frame.kind <= HEADERS {
                connection.respond(frame.stream, &body);
                (refused, body) = (None, Vec::new());
            }
            connection.frame(WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes()).flush();
        }
    });
    (upstream, count)
}

#[test]
fn a_refused_post_is_sent_again_with_its_whole_body() {
    for after_body in [false, true] {
        let (upstream, refused) = refusing(after_body);
        let gateway = gateway(&upstream.uri());
        let mut client = gateway.connect();
        for size in [0, 1, 5000, 16 * 1024] {
            let body = vec![b'x'; size];
            let response = client.request("POST", "/x", &[("Content-Length", "0")][usize::from(size > 0)..], &body);
            assert_eq!((response.status, response.body == body), (200, true), "{size} {after_body}");
        }
        // The second attempt starts while the client still sends.
        let before = refused.load(SeqCst);
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n");
        if !after_body {
            crate::support::eventually("it is refused", || refused.load(SeqCst) > before);
        }
        client.send("5\r\nfives\r\n0\r\n\r\n");
        let response = client.response().unwrap();
        assert_eq!((response.status, response.text().as_str()), (200, "fourfives"));
    }
}

#[test]
fn a_refused_post_whose_body_is_gone_fails() {
    let (upstream, _) = refusing(true);
    let gateway = gateway(&upstream.uri());
    assert_eq!(gateway.connect().request("POST", "/x", &[], &[b'x'; 40_000]).status, 502);
}

#[test]
fn a_stream_that_is_always_refused_is_tried_three_times() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let upstream = RawHttp2::upstream(move |connection| {
        while let Some((stream, _)) = connection.request() {
            counted.fetch_add(1, SeqCst);
            connection.reset(stream, REFUSED_STREAM).flush();
        }
    });
    let gateway = gateway(&upstream.uri());
    assert_eq!((gateway.get("/x").status, count.load(SeqCst)), (502, 3));
}

#[test]
fn a_request_body_above_the_limit_resets_the_stream_and_becomes_413() {
    let (report, resets) = channel();
    let upstream = RawHttp2::upstream(move |connection| {
        while let Some(frame) = connection.next() {
            if frame.kind == RST_STREAM {
                report.send(frame.stream).unwrap();
            }
        }
    });
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', http2: prior-knowledge, predicates: [Path=/**], filters: [RequestSize=1000B]}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n");
    client.send(format!("3e8\r\n{}\r\n0\r\n\r\n", "x".repeat(1000)));
    assert_eq!(client.response().unwrap().status, 413);
    assert_eq!(resets.recv_timeout(PATIENCE).unwrap(), 1);
}
