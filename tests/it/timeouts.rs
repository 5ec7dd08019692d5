//! Timeouts for slow clients and upstreams.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};
use crate::support::{PATIENCE, eventually};

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

/// Upstreams that wait for bodies, with an ejection after two failures and a breaker that opens at two.
#[test]
fn clients_that_stall_their_bodies_neither_eject_an_endpoint_nor_open_a_breaker() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, body-timeout: 1500ms}}\n\
         httpclient: {{response-timeout: 700ms}}\n\
         resilience4j: {{circuitbreaker: {{instances: {{cb: {{sliding-window-size: 2, minimum-number-of-calls: 2}}}}}}, \
         timelimiter: {{instances: {{cb: {{timeout-duration: 700ms}}}}}}}}\n\
         upstreams: {{orders: {{endpoints: ['{}'], ejection: {{consecutive-failures: 2}}}}}}\n\
         routes:\n\
         - {{id: a, uri: 'lb://orders', predicates: [Path=/a]}}\n\
         - {{id: b, uri: 'lb://orders', predicates: [Path=/b], filters: [{{name: CircuitBreaker, args: {{name: cb}}}}]}}",
        upstream.uri()
    ));
    for path in ["/a", "/b"] {
        let stalled: Vec<Connection> = (0..3)
            .map(|_| {
                let mut client = gateway.connect();
                client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"));
                client
            })
            .collect();
        for mut client in stalled {
            assert_eq!(client.response().unwrap().status, 408, "{path}");
        }
        assert_eq!(gateway.get(path).status, 200, "{path}");
    }
    assert_eq!(gateway.metric("tollgate_upstream_ejections_total", &[]), 0.0);
    assert_eq!(gateway.metric("tollgate_circuit_breaker_calls_total", &["kind=\"failed\""]), 0.0);
}

/// Without `body-timeout`, no other timeout ends the silent client's call.
#[test]
fn a_silent_client_does_not_keep_a_breaker_half_open() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let upstream = Upstream::start(move |_| response(if broken.load(Relaxed) { 500 } else { 200 }, &[], b""));
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, body-timeout: 0}}\nhttpclient: {{response-timeout: 0}}\n\
         resilience4j: {{circuitbreaker: {{instances: {{cb: {{sliding-window-size: 2, minimum-number-of-calls: 2, \
         permitted-number-of-calls-in-half-open-state: 1, wait-duration-in-open-state: 1ms}}}}}}, \
         timelimiter: {{instances: {{cb: {{timeout-duration: 300ms}}}}}}}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [{{name: CircuitBreaker, args: {{name: cb, \
         statusCodes: [500]}}}}]}}]",
        upstream.uri()
    ));
    assert_eq!([gateway.get("/").status, gateway.get("/").status], [500; 2]);
    is_broken.store(false, Relaxed);
    // Only waiting ends the open state.
    std::thread::sleep(Duration::from_millis(50));
    let mut silent = gateway.connect();
    silent.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha");
    eventually("the silent client has the place", || {
        gateway.metric("tollgate_circuit_breaker_state", &["state=\"half_open\""]) == 1.0
    });
    assert_eq!(gateway.get("/").status, 503);
    eventually("another call has closed the breaker", || gateway.get("/").status == 200);
    silent.send("lf");
    assert_eq!(silent.response().unwrap().status, 200, "it goes on");
    let failed = gateway.metric("tollgate_circuit_breaker_calls_total", &["kind=\"failed\""]);
    assert_eq!(failed, 2.0);
}

#[test]
fn an_upstream_that_gives_up_a_stalled_upload_has_not_failed() {
    let upstream = Upstream::scripted(|stream, _| {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(1_500)));
        let mut bytes = [0; 4096];
        while matches!(stream.read(&mut bytes), Ok(1..)) {}
    });
    let gateway = Gateway::filtering(&upstream.uri(), "[{name: CircuitBreaker, args: {name: cb}}]");
    let mut client = gateway.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    assert_eq!(client.response().unwrap().status, 408);
    let calls = |kind: &str| gateway.metric("tollgate_circuit_breaker_calls_total", &[&format!("kind=\"{kind}\"")]);
    assert_eq!((calls("failed"), calls("ignored")), (0.0, 1.0));
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
