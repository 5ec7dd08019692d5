//! Timeouts for slow clients and upstreams.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::http2::raw::{END_STREAM, ORDINARY, Raw, SETTINGS, WINDOW_UPDATE};
use crate::log_fields::lines;
use crate::support::PATIENCE;
use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};

/// Starts a gateway with one timeout of `server` set to 300 ms.
fn patient_for_300_ms(setting: &str, uri: &str) -> Gateway {
    Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, {setting}: 300ms}}\n\
         routes: [{{id: a, uri: '{uri}', predicates: [Path=/**]}}]"
    ))
}

/// Waits until the connection closes, and returns the bytes before it. The wait must be neither zero nor long.
#[track_caller]
fn ends_in_time(client: &mut Connection, start: Instant) -> String {
    let rest = String::from_utf8(client.rest()).unwrap();
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(10), "{took:?}");
    rest
}

#[test]
fn an_incomplete_head_closes_the_connection_after_the_timeout() {
    let upstream = Upstream::ok("ok");
    let gateway = patient_for_300_ms("header-timeout", &upstream.uri());
    for start_of_head in ["", "P", "GET /x HTTP/1.1\r\nHo", "GET /x HTTP/1.1\r\nHost: a\r\n"] {
        let start = Instant::now();
        let mut client = gateway.connect();
        client.send(start_of_head);
        let rest = ends_in_time(&mut client, start);
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest:?}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_trickling_head_does_not_extend_its_timeout() {
    let upstream = Upstream::ok("ok");
    let gateway = patient_for_300_ms("header-timeout", &upstream.uri());
    let mut client = gateway.connect();
    // The second head on the connection; the first was complete.
    assert_eq!(client.request("GET", "/x", &[], b"").status, 200);
    let start = Instant::now();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n");
    while client.try_send("X: y\r\n").is_ok() {
        assert!(start.elapsed() < Duration::from_secs(10), "slowloris lives");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() >= Duration::from_millis(250));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let (answer, answering) = std::sync::mpsc::channel();
    let answering = std::sync::Mutex::new(answering);
    let upstream = Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            seen(request);
            if answering.lock().unwrap().recv_timeout(PATIENCE).is_err() {
                return;
            }
            let _ = stream.write_all(&response(200, &[], b"ok"));
        }
    });
    let gateway = patient_for_300_ms("idle-timeout", &upstream.uri());
    let mut busy = gateway.connect();
    busy.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut idle = gateway.connect();
    answer.send(()).unwrap();
    assert_eq!(busy.response().unwrap().status, 200);
    idle.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    answer.send(()).unwrap();
    assert_eq!(idle.response().unwrap().status, 200);
    // The response takes longer than the idle timeout.
    busy.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let start = Instant::now();
    assert_eq!(ends_in_time(&mut idle, start), "");
    answer.send(()).unwrap();
    assert_eq!(busy.response().unwrap().status, 200);
}

#[test]
fn a_stalled_request_body_gets_408_and_is_not_completed_upstream() {
    let upstream = Upstream::ok("ok");
    let gateway = patient_for_300_ms("body-timeout", &upstream.uri());
    for body in [
        "Content-Length: 10\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Content-Length: 1\r\n\r\n",
    ] {
        let start = Instant::now();
        let mut client = gateway.connect();
        client.send(format!("POST /x HTTP/1.1\r\nHost: a\r\n{body}"));
        let rest = ends_in_time(&mut client, start);
        assert!(rest.starts_with("HTTP/1.1 408"), "{rest:?}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn the_response_timeout_ends_a_stalled_body_that_has_no_timeout() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "httpclient: {{response-timeout: 400ms}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**], metadata: {{body-timeout: 0}}}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(150));
        client.send("x");
    }
    let start = Instant::now();
    let rest = ends_in_time(&mut client, start);
    assert!(rest.starts_with("HTTP/1.1 408"), "{rest:?}");
}

#[test]
fn a_route_sets_its_body_timeout_or_switches_it_off() {
    let upstream = Upstream::ok("ok");
    for (global, of_route, status) in [("300ms", "0", 200), ("300ms", "-1", 200), ("0", "300", 408)] {
        let gateway = Gateway::start(&format!(
            "server: {{address: 127.0.0.1, workers: 1, body-timeout: {global}}}\nroutes: [{{id: a, uri: '{}', \
             predicates: [Path=/**], metadata: {{body-timeout: {of_route}}}}}]",
            upstream.uri()
        ));
        let mut client = gateway.connect();
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
        // Only waiting can show it.
        std::thread::sleep(Duration::from_millis(700));
        let _ = client.try_send("half");
        assert_eq!(client.response().unwrap().status, status, "{global}, {of_route} for the route");
    }
}

#[test]
fn a_flowing_upload_may_exceed_the_response_timeout() {
    let upstream = Upstream::start(|request| response(200, &[], request.body.len().to_string().as_bytes()));
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/**], metadata: {{response-timeout: 400}}}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(80));
        client.send("x");
    }
    assert_eq!(client.response().unwrap().text(), "10");
}

#[test]
fn a_client_that_stops_reading_is_disconnected_and_frees_its_upstream() {
    let (ended, ending) = std::sync::mpsc::channel();
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [b"10000\r\n".as_slice(), &vec![0; 0x10000], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {}
        let _ = ended.send(());
    });
    let gateway = patient_for_300_ms("write-timeout", &upstream.uri());
    let mut client = gateway.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    ending.recv_timeout(PATIENCE).unwrap();
    assert!(!client.response().unwrap().complete);
}

#[test]
fn the_access_log_names_the_timeout_that_ended_a_request() {
    const LARGEST: [u8; 4] = [0x7f, 0xff, 0, 0];
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let upstream = Upstream::scripted(|stream, _| {
        let Some(request) = read_request(stream) else { return };
        if request.target().starts_with("/silent") {
            let _ = stream.read(&mut [0]);
            return;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [b"10000\r\n".as_slice(), &vec![0; 0x10000], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {}
    });
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, write-timeout: 300ms}}\n\
         httpclient: {{response-timeout: 300ms}}\naccess-log: {{output: '{}', format: json}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        log.display(),
        upstream.uri()
    ));
    let mut http1 = gateway.connect();
    http1.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let get = |client: &mut Raw, path| client.headers(1, END_STREAM, &[&ORDINARY[..3], &[(":path", path)]].concat());
    // The window of the stream stops the first response, the socket the second one.
    let (mut stream, mut socket) = (Raw::open(&gateway), Raw::open(&gateway));
    get(&mut stream, "/2");
    socket.frame(SETTINGS, 0, 0, &[&[0, 4][..], &LARGEST].concat());
    socket.frame(WINDOW_UPDATE, 0, 0, &LARGEST);
    get(&mut socket, "/3");
    assert_eq!(gateway.get("/silent").status, 504);
    let reasons: Vec<_> = lines(&log, 4).iter().map(|line| (line["status"].clone(), line["reason"].clone())).collect();
    let cut = (200.into(), "write-timeout".into());
    assert_eq!(reasons, [cut.clone(), cut.clone(), cut, (504.into(), "response-timeout".into())]);
}

#[test]
fn a_stalled_response_body_is_aborted() {
    let upstream = Upstream::scripted(|stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        let _ = read_request(stream);
    });
    let gateway = Gateway::start(&format!(
        "httpclient: {{read-timeout: 300ms}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let start = Instant::now();
    let mut client = gateway.connect();
    let answer = client.request("GET", "/x", &[], b"");
    assert_eq!((answer.status, answer.text().as_str(), answer.complete), (200, "half", false));
    assert!(start.elapsed() < Duration::from_secs(10));
}
