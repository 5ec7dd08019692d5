//! `ConcurrencyLimiter`: the number of concurrent requests at the upstream, and the release of slots.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::support::client::{Connection, Response};
use crate::support::gateway::Gateway;
use crate::support::load::{Load, statuses};
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, read_request, response};
use crate::support::{PATIENCE, eventually};

/// Leases of key `k` on route `a`.
pub const LEASES: &str = "concurrency_limiter.{a.k}.leases";

/// Route `a` for every path to `uri`, with one limiter by `X-Key`; slots are in `redis` if given.
pub fn yaml(redis: Option<&Redis>, uri: &str, arguments: &str) -> String {
    // The timeout is long enough for two busy cores: the fallback must not decide in this test.
    let redis = redis.map_or(String::new(), |redis| format!("redis: {{url: '{}', timeout: 5s}}\n", redis.url()));
    format!(
        "{redis}routes: [{{id: a, uri: '{uri}', predicates: [Path=/**], filters: [{{name: ConcurrencyLimiter, args: \
         {{key-resolver: 'header:x-key', on-store-failure: deny, {arguments}}}}}]}}]"
    )
}

/// Sets that a client which closes its sending side has disconnected.
fn without_half_close(yaml: &str) -> String {
    format!("server: {{address: 127.0.0.1, workers: 1, half-close: false}}\n{yaml}")
}

/// Upstream that answers `/hold` with the first bytes of a body and ends it on command. It answers other paths
/// immediately.
pub struct Holding {
    pub upstream: Upstream,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Holding {
    pub fn start() -> Self {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&gate);
        let upstream = Upstream::scripted(move |stream, seen| {
            while let Some(request) = read_request(stream) {
                let holds = request.target() == "/hold";
                seen(request);
                if !holds {
                    let _ = stream.write_all(&response(200, &[], b"quick"));
                    continue;
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
                let (open, opened) = &*shared;
                drop(opened.wait_timeout_while(open.lock().unwrap(), PATIENCE, |open| !*open).unwrap());
                let _ = stream.write_all(b"1\r\nb\r\n0\r\n\r\n");
            }
        });
        Self { upstream, gate }
    }

    /// Ends every body.
    pub fn let_go(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }
}

/// Requests `/hold`, and returns when the body has begun.
pub fn hold(gateway: &Gateway) -> Connection {
    let mut client = gateway.connect();
    client.send("GET /hold HTTP/1.1\r\nHost: a\r\nX-Key: k\r\n\r\n");
    assert!(client.until(b"\r\n\r\n").starts_with(b"HTTP/1.1 200"));
    assert_eq!(client.take(6), b"1\r\na\r\n");
    client
}

pub fn quick(gateway: &Gateway) -> Response {
    gateway.connect().request("GET", "/quick", &[("x-key", "k")], b"")
}

fn held(redis: &Redis) -> usize {
    redis.cli(&["ZCARD", LEASES]).parse().unwrap()
}

/// Highest number of concurrent requests that two gateways with 64 clients each admit, and the responses.
fn most_at_once(limit: usize) -> usize {
    let redis = Redis::start();
    let now_and_most = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let seen = Arc::clone(&now_and_most);
    let upstream = Upstream::start(move |_| {
        let now = seen.0.fetch_add(1, SeqCst) + 1;
        seen.1.fetch_max(now, SeqCst);
        std::thread::sleep(Duration::from_millis(10));
        seen.0.fetch_sub(1, SeqCst);
        response(200, &[], b"done")
    });
    let yaml = yaml(Some(&redis), &upstream.uri(), &format!("limit: {limit}"));
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    let addresses = gateways.each_ref().map(|gateway| gateway.address);
    let load = Load::start(&addresses, 128, &["/x"]);
    let start = Instant::now();
    // Enough time for a busy machine to have that many in-flight requests.
    let falls_short = || now_and_most.1.load(SeqCst) < limit && start.elapsed() < Duration::from_secs(15);
    while start.elapsed() < Duration::from_millis(1_500) || falls_short() {
        load.more(128);
    }
    let exchanges = load.stop();
    println!("limit {limit}: {:?}", statuses(&exchanges));
    assert!(exchanges.iter().all(|exchange| matches!(exchange.status(), 200 | 429)), "{:?}", statuses(&exchanges));
    assert!(exchanges.iter().filter(|exchange| exchange.status() == 429).count() > 0);
    for gateway in &gateways {
        let allowed = |labels: &[&str]| {
            let labels = [&["verdict=\"allowed\"", "source=\"redis\""], labels].concat();
            gateway.metric("tollgate_concurrency_decisions_total", &labels)
        };
        assert!(allowed(&["route=\"a\""]) > 0.0, "both had a turn");
        assert_eq!(gateway.metric("tollgate_concurrency_in_flight", &[]), 0.0);
        assert_eq!(gateway.metric("tollgate_concurrency_overruns_total", &[]), 0.0);
    }
    eventually("every slot is given back", || held(&redis) == 0);
    now_and_most.1.load(SeqCst)
}

#[test]
fn two_gateways_with_64_clients_each_reach_and_never_exceed_the_limit() {
    assert_eq!(most_at_once(7), 7);
}

#[test]
fn a_limit_of_one_excludes_across_two_gateways() {
    assert_eq!(most_at_once(1), 1);
}

#[test]
fn responses_report_limit_remaining_and_retry_after() {
    let (redis, upstream) = (Redis::start(), Holding::start());
    for redis in [None, Some(&redis)] {
        let gateway = Gateway::start(&yaml(redis, &upstream.upstream.uri(), "limit: 2, status-code: 503"));
        let first = quick(&gateway);
        assert_eq!((first.status, first.header("x-concurrency-remaining")), (200, Some("1")));
        eventually("it is over", || quick(&gateway).header("x-concurrency-remaining") == Some("1"));
        let _held = [hold(&gateway), hold(&gateway)];
        let denied = quick(&gateway);
        assert_eq!(denied.status, 503);
        for (name, value) in [("x-concurrency-limit", "2"), ("x-concurrency-remaining", "0"), ("retry-after", "1")] {
            assert_eq!(denied.header(name), Some(value), "{name}");
        }
        assert_eq!(gateway.metric("tollgate_concurrency_in_flight", &["route=\"a\"", "rule=\"a\""]), 2.0);
        assert_eq!(gateway.connect().request("GET", "/quick", &[("x-key", "other")], b"").status, 200);
        assert_eq!(gateway.connect().request("GET", "/quick", &[], b"").status, 403, "no key");
    }
}

#[test]
fn a_client_that_disconnects_during_the_body_frees_its_slot_immediately() {
    let (redis, upstream) = (Redis::start(), Holding::start());
    for redis in [None, Some(&redis)] {
        // No lease expires within this test.
        let gateway =
            Gateway::start(&without_half_close(&yaml(redis, &upstream.upstream.uri(), "limit: 1, lease: 1h")));
        let client = hold(&gateway);
        assert_eq!(quick(&gateway).status, 429);
        drop(client);
        let left = Instant::now();
        eventually("the slot is free", || quick(&gateway).status == 200);
        println!("free after {:?}", left.elapsed());
        assert!(left.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_client_that_disconnects_before_the_response_frees_its_slot_immediately() {
    let redis = Redis::start();
    let upstream = Upstream::scripted(|stream, seen| {
        while let Some(request) = read_request(stream) {
            if request.target() == "/quick" {
                let _ = stream.write_all(&response(200, &[], b"quick"));
            }
            seen(request);
        }
    });
    let gateway = Gateway::start(&without_half_close(&yaml(Some(&redis), &upstream.uri(), "limit: 1, lease: 1h")));
    let mut client = gateway.connect();
    client.send("GET /never HTTP/1.1\r\nHost: a\r\nX-Key: k\r\n\r\n");
    eventually("it is with the upstream", || upstream.targets() == ["/never"]);
    assert_eq!((quick(&gateway).status, held(&redis)), (429, 1));
    drop(client);
    eventually("the slot is free", || quick(&gateway).status == 200);
}

#[test]
fn a_stream_longer_than_its_lease_keeps_its_slot_by_renewal() {
    let (redis, upstream) = (Redis::start(), Holding::start());
    let yaml = yaml(Some(&redis), &upstream.upstream.uri(), "limit: 1, lease: 1200ms, renew-every: 200ms");
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    let mut client = hold(&gateways[0]);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(3_000) {
        assert_eq!(quick(&gateways[1]).status, 429, "after {:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(gateways[0].metric("tollgate_concurrency_renewals_total", &["outcome=\"renewed\""]) >= 5.0);
    upstream.let_go();
    assert_eq!(client.take(11), b"1\r\nb\r\n0\r\n\r\n");
    eventually("the slot is free", || quick(&gateways[1]).status == 200);
    let renewed = gateways[0].metric("tollgate_concurrency_renewals_total", &[]);
    eventually("nothing is left in Redis", || held(&redis) == 0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(gateways[0].metric("tollgate_concurrency_renewals_total", &[]), renewed, "nor renewed");
}

#[test]
fn a_websocket_holds_its_slot_until_the_tunnel_closes() {
    const ASK: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nX-Key: k\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let redis = Redis::start();
    let upstream = Upstream::scripted(|stream, seen| {
        while let Some(request) = read_request(stream) {
            if request.target() == "/ws" {
                let accept =
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello";
                let _ = stream.write_all(accept.as_bytes());
                let _ = std::io::copy(stream, &mut std::io::sink());
                return;
            }
            seen(request);
            let _ = stream.write_all(&response(200, &[], b"quick"));
        }
    });
    for redis in [None, Some(&redis)] {
        let gateway = Gateway::start(&yaml(redis, &upstream.uri(), "limit: 1, lease: 1h"));
        let mut client = gateway.connect();
        client.send(ASK);
        let answer = client.response().unwrap();
        assert_eq!((answer.status, answer.header("x-concurrency-remaining")), (101, Some("0")));
        assert_eq!(client.take(5), b"hello");
        for _ in 0..5 {
            assert_eq!(quick(&gateway).status, 429, "the tunnel is still the request");
        }
        assert_eq!(gateway.metric("tollgate_concurrency_in_flight", &[]), 1.0);
        drop(client);
        eventually("the slot is free", || quick(&gateway).status == 200);
    }
}

#[test]
fn a_reload_keeps_held_slots_and_applies_a_new_limit() {
    let (redis, upstream) = (Redis::start(), Holding::start());
    for redis in [None, Some(&redis)] {
        let with = |limit: u32| {
            without_half_close(&yaml(redis, &upstream.upstream.uri(), &format!("limit: {limit}, lease: 1h")))
        };
        let gateway = Gateway::start(&with(1));
        let client = hold(&gateway);
        gateway.reload(&with(1));
        eventually("the new generation serves", || gateway.metric("tollgate_reloads_total", &[]) >= 1.0);
        for _ in 0..20 {
            assert_eq!(quick(&gateway).status, 429);
        }
        gateway.reload(&with(2));
        eventually("the new limit holds", || quick(&gateway).header("x-concurrency-limit") == Some("2"));
        let _second = hold(&gateway);
        assert_eq!(quick(&gateway).status, 429);
        drop(client);
        eventually("slots of the old generation are free", || quick(&gateway).status == 200);
    }
}

#[test]
fn two_limiters_of_a_route_have_separate_slots_shared_by_workers() {
    let upstream = Holding::start();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 2}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [\
         {{name: ConcurrencyLimiter, args: {{limit: 3, key-resolver: route}}}}, \
         {{name: ConcurrencyLimiter, args: {{limit: 2, key-resolver: 'header:x-key'}}}}]}}]",
        upstream.upstream.uri()
    ));
    let _held = [hold(&gateway), hold(&gateway)];
    assert_eq!(quick(&gateway).status, 429, "two of the key are two, whichever worker they came to");
    let other = gateway.connect().request("GET", "/quick", &[("x-key", "other")], b"");
    assert_eq!(other.all("x-concurrency-limit"), ["3", "2"]);
    assert_eq!(other.all("x-concurrency-remaining"), ["0", "1"]);
    assert_eq!(gateway.metric("tollgate_concurrency_in_flight", &["rule=\"a#2\""]), 2.0);
}
