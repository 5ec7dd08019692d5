//! Upstreams that fail, hang or send too much: the response to this client, and the effect on the next.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::log_fields::lines;
use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};
use crate::support::{PATIENCE, free_address};

/// Starts a gateway with one route and a response timeout of 300 ms.
fn impatient(uri: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{id: a, uri: '{uri}', predicates: [Path=/**], metadata: {{response-timeout: 300}}}}]"
    ))
}

/// Starts an upstream that answers every request with `bytes` and closes.
pub fn closing(bytes: impl Into<Vec<u8>>) -> Upstream {
    let bytes = bytes.into();
    Upstream::scripted(move |stream, seen| {
        if let Some(request) = read_request(stream) {
            seen(request);
            let _ = stream.write_all(&bytes);
        }
    })
}

#[test]
fn a_refused_connection_becomes_502_immediately() {
    let gateway = Gateway::to(&format!("http://{}", free_address()));
    let start = Instant::now();
    let mut client = gateway.connect();
    for _ in 0..3 {
        assert_eq!(client.request("POST", "/x", &[], b"body").status, 502);
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_connection_that_is_not_accepted_becomes_504_at_the_connect_timeout() {
    // A listener whose accept queue is full drops further packets that open connections.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        queued.push(stream);
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let gateway = Gateway::start(&format!(
        "access-log: {{output: '{}', format: json}}\n\
         routes: [{{id: a, uri: 'http://{address}', predicates: [Path=/**], metadata: {{connect-timeout: 200}}}}]",
        log.display()
    ));
    let start = Instant::now();
    assert_eq!(gateway.get("/x").status, 504);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(lines(&log, 1)[0]["reason"], "connect-timeout");
}

#[test]
fn failure_responses_disclose_nothing_internal() {
    let address = free_address();
    let gateway = Gateway::to(&format!("http://{address}"));
    let text = gateway.get("/x");
    let problem = gateway.connect().request("GET", "/x", &[("Accept", "application/json")], b"");
    assert_eq!(problem.json()["status"], 502);
    for answer in [text, problem] {
        let shown = format!("{answer:?}");
        for secret in [address.port().to_string().as_str(), "127.0.0.1", "hyper", "os error"] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
    }
}

#[test]
fn a_silent_upstream_becomes_504_at_the_route_timeout_and_is_cancelled() {
    let (left, leaving) = std::sync::mpsc::channel();
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ = left.send(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    });
    let gateway = impatient(&upstream.uri());
    let start = Instant::now();
    assert_eq!(gateway.get("/x").status, 504);
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(10), "{took:?}");
    assert!(leaving.recv_timeout(PATIENCE).unwrap(), "the gateway gave the connection up");
    assert_eq!(upstream.requests().len(), 1, "a request that was taken is not sent again");
}

#[test]
fn a_post_without_a_response_becomes_502_and_is_not_repeated() {
    let upstream = closing("");
    let gateway = Gateway::to(&upstream.uri());
    assert_eq!(gateway.connect().request("POST", "/x", &[], b"body").status, 502);
    assert_eq!(gateway.connect().request("POST", "/x", &[("Content-Length", "0")], b"").status, 502);
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_get_without_a_response_is_repeated_once_on_a_new_connection() {
    let asked = AtomicUsize::new(0);
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        if asked.fetch_add(1, SeqCst) % 2 == 1 {
            let _ = stream.write_all(&response(200, &[], b"second"));
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    assert_eq!(gateway.get("/x").text(), "second");
    assert_eq!((upstream.requests().len(), upstream.connections()), (2, 2));
    let never = closing("");
    let gateway = Gateway::to(&never.uri());
    assert_eq!(gateway.get("/x").status, 502);
    assert_eq!(never.requests().len(), 2, "bounded");
}

#[test]
fn an_idle_connection_closed_by_the_upstream_fails_no_idempotent_request() {
    // Answers the first request of each connection, and closes at the second without a response.
    let upstream = Upstream::scripted(|stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ = stream.write_all(&response(200, &[], b"ok"));
        if let Some(request) = read_request(stream) {
            seen(request);
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for (n, method) in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "GET"].iter().enumerate() {
        let answer = client.request(method, "/x", &[("Content-Length", "0")], b"");
        assert_eq!(answer.status, 200, "{method} {n}");
    }
    assert_eq!(client.request("POST", "/x", &[], b"once").status, 502, "a POST may have been acted on");
    let posts = upstream.requests().iter().filter(|request| request.line.starts_with("POST")).count();
    assert_eq!(posts, 1);
}

#[test]
fn an_idle_connection_already_closed_fails_no_request() {
    let (closed, closing) = std::sync::mpsc::channel();
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ = stream.write_all(&response(200, &[], b"ok"));
        let _ = stream.shutdown(Shutdown::Both);
        let _ = closed.send(());
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for n in 0..20 {
        let answer = client.request("POST", "/x", &[], b"body");
        // The close races with the next request: a POST already written may become 502, but never two POSTs.
        assert!(answer.status == 200 || answer.status == 502, "{n}: {}", answer.status);
        closing.recv_timeout(PATIENCE).unwrap();
        assert_eq!(client.request("GET", "/x", &[], b"").status, 200, "{n}");
        closing.recv_timeout(PATIENCE).unwrap();
    }
    let posts = upstream.requests().iter().filter(|request| request.line.starts_with("POST")).count();
    assert!(posts <= 20, "{posts}");
}

#[test]
fn the_number_of_interim_responses_is_limited() {
    let upstream = Upstream::scripted(|stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let run = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(1000);
        while stream.write_all(&run).is_ok() {}
    });
    let other = Upstream::ok("served");
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/endless], metadata: {{response-timeout: -1}}}}, \
         {{id: b, uri: '{}', predicates: [Path=/other]}}]",
        upstream.uri(),
        other.uri()
    ));
    let mut client = gateway.connect();
    client.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(gateway.get("/other").text(), "served", "the worker is not held up");
    let answer = client.response().unwrap();
    assert_eq!(answer.status, 502, "no timeout is needed for that");
}

#[test]
fn bytes_after_a_response_do_not_reach_the_next_client() {
    let upstream = Upstream::scripted(|stream, seen| {
        while let Some(request) = read_request(stream) {
            seen(request);
            let poison = response(200, &[], b"poison");
            if stream.write_all(&[response(200, &[], b"clean"), poison].concat()).is_err() {
                return;
            }
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    for n in 0..50 {
        let answer = gateway.get("/x");
        assert_eq!((answer.status, answer.text().as_str()), (200, "clean"), "request {n}");
    }
}

#[test]
fn bytes_on_an_idle_upstream_connection_close_it() {
    let (closed, closing) = std::sync::mpsc::channel();
    let (poison, poisoning) = std::sync::mpsc::channel();
    let poisoning = std::sync::Mutex::new(poisoning);
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ = stream.write_all(&response(200, &[], b"clean"));
        let _ = poisoning.lock().unwrap().recv_timeout(PATIENCE);
        let _ = stream.write_all(&response(200, &[], b"poison"));
        let _ = closed.send(read_request(stream).is_none());
    });
    let gateway = Gateway::to(&upstream.uri());
    for _ in 0..5 {
        assert_eq!(gateway.get("/x").text(), "clean");
        poison.send(()).unwrap();
        assert!(closing.recv_timeout(PATIENCE).unwrap(), "closed before it carried another request");
    }
}

#[test]
fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    let upstream = Upstream::scripted(|stream, _| {
        // Answers after the head, without reading the body.
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
            head.push(byte[0]);
        }
        let _ = stream.write_all(&response(413, &[("Connection", "close")], b"too much"));
        let _ = stream.shutdown(Shutdown::Write);
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nfirst bytes");
    let answer = client.response().unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (413, "too much"));
    // Bytes sent from now on belong to that body, and are never read as a request.
    let _ = client.try_send("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
    client.finish();
    assert!(client.is_closed());
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_client_that_disconnects_cancels_its_upstream_request() {
    let (left, leaving) = std::sync::mpsc::channel();
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else {
            let _ = left.send("in the middle of its body");
            return;
        };
        seen(request);
        if matches!(stream.read(&mut [0]), Ok(0) | Err(_)) {
            let _ = left.send("while waiting");
        }
    });
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, half-close: false}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut waiting = gateway.connect();
    waiting.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    crate::support::eventually("the upstream has the request", || upstream.requests().len() == 1);
    drop(waiting);
    assert_eq!(leaving.recv_timeout(PATIENCE).unwrap(), "while waiting");
    let mut posted = gateway.connect();
    posted.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    crate::support::eventually("the upstream has the request with its body", || upstream.requests().len() == 2);
    drop(posted);
    assert_eq!(leaving.recv_timeout(PATIENCE).unwrap(), "while waiting");
    let mut uploading: Connection = gateway.connect();
    uploading.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    crate::support::eventually("the upload is under way", || upstream.connections() == 3);
    drop(uploading);
    assert_eq!(leaving.recv_timeout(PATIENCE).unwrap(), "in the middle of its body");
    assert_eq!(upstream.requests().len(), 2);
}
