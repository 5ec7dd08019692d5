//! `httpclient.pool` and limits of responses: number of connections, their age, size of response heads.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::client::get;
use crate::support::gateway::Gateway;
use crate::support::raw_http2::{END_HEADERS, END_STREAM, HEADERS, OK, RawHttp2, fields};
use crate::support::upstream::{Upstream, read_request, response};

fn pooled(pool: &str, uri: &str) -> Gateway {
    Gateway::start(&format!("httpclient: {{pool: {pool}}}\nroutes: [{{id: a, uri: '{uri}', predicates: [Path=/**]}}]"))
}

#[test]
fn a_fixed_pool_reuses_at_most_its_number_of_connections() {
    let upstream = Upstream::ok("ok");
    let gateway = pooled("{type: fixed, max-connections: 2}", &upstream.uri());
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let address = gateway.address;
            std::thread::spawn(move || (0..10).map(|_| get(address, "/x").status).collect::<Vec<_>>())
        })
        .collect();
    for one in asking {
        assert_eq!(one.join().unwrap(), [200; 10]);
    }
    assert!(upstream.connections() <= 2, "{}", upstream.connections());
}

#[test]
fn a_request_that_waits_too_long_for_a_connection_gets_503() {
    let (held, holding) = channel();
    let (free, freeing) = channel::<()>();
    let freeing = Mutex::new(freeing);
    let upstream = Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            let waits = request.target() == "/held";
            seen(request);
            if waits {
                held.send(()).unwrap();
                let _ = freeing.lock().unwrap().recv();
            }
            let _ = stream.write_all(&response(200, &[], b"ok"));
        }
    });
    let gateway = pooled("{type: fixed, max-connections: 1, acquire-timeout: 200ms}", &upstream.uri());
    let address = gateway.address;
    let first = std::thread::spawn(move || get(address, "/held").status);
    holding.recv().unwrap();
    let start = Instant::now();
    let late = gateway.connect().request("GET", "/x", &[("Accept", "application/json")], b"");
    assert_eq!((late.status, &late.json()["detail"]), (503, &"the upstream is busy".into()));
    assert!((Duration::from_millis(190)..Duration::from_secs(10)).contains(&start.elapsed()));
    gateway.logged("all connections allowed by `httpclient.pool.max-connections` are in use");
    let second = std::thread::spawn(move || get(address, "/x").status);
    free.send(()).unwrap();
    assert_eq!((first.join().unwrap(), second.join().unwrap()), (200, 200));
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_queued_request_gets_a_connection_before_an_upload_ends() {
    let upstream = Upstream::scripted(|stream, _| {
        let mut head = [0; 4096];
        if std::io::Read::read(stream, &mut head).is_ok() {
            let _ = stream.write_all(&response(200, &[], b"ok"));
            std::thread::sleep(Duration::from_secs(3));
        }
    });
    let gateway = pooled("{type: fixed, max-connections: 1, acquire-timeout: 1s}", &upstream.uri());
    let mut uploading = gateway.connect();
    uploading.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    // The response comes before the request body, which is sent slowly.
    assert_eq!(uploading.response().unwrap().status, 200);
    let start = Instant::now();
    assert_eq!(gateway.get("/x").status, 200);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn a_broken_connection_frees_its_place_in_the_pool() {
    let upstream = Upstream::scripted(|stream, seen| {
        if let Some(request) = read_request(stream) {
            seen(request);
            let _ = stream.write_all(&response(200, &[("Connection", "close")], b"ok"));
        }
    });
    let gateway = pooled("{type: fixed, max-connections: 1, acquire-timeout: 5s}", &upstream.uri());
    for _ in 0..5 {
        assert_eq!(gateway.get("/x").status, 200);
    }
    assert_eq!(upstream.connections(), 5);
}

#[test]
fn a_disabled_pool_keeps_no_connection() {
    let upstream = Upstream::ok("ok");
    let gateway = pooled("{type: disabled}", &upstream.uri());
    let mut client = gateway.connect();
    for _ in 0..4 {
        assert_eq!(client.request("GET", "/x", &[], b"").status, 200);
    }
    assert_eq!(upstream.connections(), 4);
}

#[test]
fn connections_are_reused_fifo_or_lifo_until_their_maximum_age() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let count = AtomicUsize::new(0);
    let (noted, meeting) = (Arc::clone(&order), Arc::new(std::sync::Barrier::new(2)));
    let upstream = Upstream::scripted(move |stream, _| {
        let number = count.fetch_add(1, SeqCst);
        while let Some(request) = read_request(stream) {
            if request.target() == "/both" {
                meeting.wait();
            }
            noted.lock().unwrap().push(number);
            let _ = stream.write_all(&response(200, &[], b"ok"));
        }
    });
    for (strategy, changes) in [("fifo", true), ("lifo", false)] {
        let gateway = pooled(&format!("{{leasing-strategy: {strategy}}}"), &upstream.uri());
        let address = gateway.address;
        let other = std::thread::spawn(move || get(address, "/both").status);
        assert_eq!((get(address, "/both").status, other.join().unwrap()), (200, 200));
        order.lock().unwrap().clear();
        let mut client = gateway.connect();
        for _ in 0..6 {
            assert_eq!(client.request("GET", "/x", &[], b"").status, 200);
        }
        let used = order.lock().unwrap().clone();
        assert_eq!(used.windows(2).all(|two| two[0] != two[1]), changes, "{strategy}: {used:?}");
    }
    let upstream = Upstream::ok("ok");
    let gateway = pooled("{max-life-time: 1s}", &upstream.uri());
    let mut client = gateway.connect();
    crate::support::eventually("an old connection is replaced", || {
        assert_eq!(client.request("GET", "/x", &[], b"").status, 200);
        upstream.connections() > 1
    });
}

#[test]
fn response_heads_are_limited_to_the_configured_number_of_fields() {
    let old = Upstream::start(|request| {
        let count: usize = request.target()[1..].parse().unwrap();
        response(200, &vec![("X-Field", "1"); count - 1], b"ok")
    });
    for (setting, fits, too_many) in [("", 200, 201), ("httpclient: {max-headers: 20}\n", 20, 21)] {
        for count in [fits, too_many] {
            let new = RawHttp2::upstream(move |connection| {
                let block = [OK, &fields(&vec![("x-field", "1"); count])].concat();
                while let Some((stream, _)) = connection.request() {
                    connection.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block).flush();
                }
            });
            let gateway = Gateway::start(&format!(
                "{setting}routes: [{{id: old, uri: '{}', predicates: [Header=x-old]}}, \
                 {{id: new, uri: '{}', http2: prior-knowledge, predicates: [Path=/**]}}]",
                old.uri(),
                new.uri()
            ));
            let expected = if count == fits { 200 } else { 502 };
            let mut client = gateway.connect();
            let path = format!("/{count}");
            assert_eq!(client.request("GET", &path, &[("X-Old", "1")], b"").status, expected, "{setting}{count}");
            assert_eq!(client.request("GET", &path, &[], b"").status, expected, "HTTP/2: {setting}{count}");
        }
    }
}

#[test]
fn response_heads_are_limited_to_the_configured_size() {
    let upstream = Upstream::start(|request| {
        let size: usize = request.target()[1..].parse().unwrap();
        response(200, &[("X-Large", &"x".repeat(size))], b"ok")
    });
    for (setting, fits, too_large) in [("", 60_000, 70_000), ("httpclient: {max-header-size: 2KB}\n", 1500, 2500)] {
        let gateway =
            Gateway::start(&format!("{setting}routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]", upstream.uri()));
        assert_eq!(gateway.get(&format!("/{fits}")).status, 200, "{setting}");
        assert_eq!(gateway.get(&format!("/{too_large}")).status, 502, "{setting}");
    }
}
