//! `RequestCounter`: the usage in Redis equals the served requests.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::load::{Load, statuses};
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, read_request};

/// `/a`, counted by `X-Key`, with additional `top` keys.
fn yaml(redis: &Redis, uri: &str, top: &str, arguments: &str) -> String {
    format!(
        "server: {{address: 127.0.0.1, workers: 2, half-close: false}}\nredis: {{url: '{}'{top}\nroutes: [{{id: a, uri: '{uri}', \
         predicates: [Path=/a], filters: [{{name: RequestCounter, args: {{key-resolver: 'header:x-key'{arguments}}}}}]}}]",
        redis.url()
    )
}

/// Returns all usage: sums by key id and field.
fn counted(redis: &Redis) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for key in redis.cli(&["--raw", "KEYS", "request_counter.*"]).lines() {
        let id = key.split('{').nth(1).unwrap().split('}').next().unwrap();
        let fields = redis.cli(&["--raw", "HGETALL", key]);
        let fields: Vec<&str> = fields.lines().collect();
        if fields.len() < 2 {
            continue; // the number of the last batch, which is no hash
        }
        for field in fields.chunks(2) {
            *sums.entry(format!("{id} {}", field[0])).or_default() += field[1].parse::<u64>().unwrap();
        }
    }
    sums
}

fn sum(redis: &Redis, field: &str) -> u64 {
    counted(redis).get(field).copied().unwrap_or_default()
}

#[test]
fn bytes_of_bodies_for_the_echo_upstream_are_counted() {
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis, "echo:", "}\nmetering: {flush-every: 10ms}", ""));
    let mut client = gateway.connect();
    client.request("POST", "/a", &[("x-key", "ann")], &[b'x'; 300_000]);
    client.request("POST", "/a", &[("x-key", "ann")], b"four");
    eventually("all are counted", || gateway.metric("tollgate_metering_flushed_requests_total", &[]) == 2.0);
    assert_eq!(sum(&redis, "a.ann a.POST.2xx.bytes_in"), 300_004);
}

#[test]
fn usage_in_redis_is_split_by_key_route_method_and_status() {
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis, &Upstream::ok("hello").uri(), "}\nmetering: {flush-every: 10ms}", ""));
    let mut client = gateway.connect();
    client.request("GET", "/a", &[("x-key", "ann")], b"");
    client.request("POST", "/a", &[("x-key", "ann")], b"four");
    client.request("GET", "/a", &[], b"");
    eventually("all are counted", || gateway.metric("tollgate_metering_flushed_requests_total", &[]) == 3.0);
    let expected = [
        ("a. a.GET.2xx.bytes_out", 5),
        ("a. a.GET.2xx.requests", 1),
        ("a.ann a.GET.2xx.bytes_out", 5),
        ("a.ann a.GET.2xx.requests", 1),
        ("a.ann a.POST.2xx.bytes_in", 4),
        ("a.ann a.POST.2xx.bytes_out", 5),
        ("a.ann a.POST.2xx.requests", 1),
    ];
    assert_eq!(counted(&redis), expected.map(|(field, count)| (field.to_owned(), count)).into());
    let keys = redis.cli(&["--raw", "KEYS", "request_counter.{a.ann}.????-??-??"]);
    let ttl: i64 = redis.cli(&["TTL", &keys]).parse().unwrap();
    assert!((34 * 86_400..=35 * 86_400).contains(&ttl), "{keys} {ttl}");
}

#[test]
fn a_shutdown_under_load_loses_no_usage() {
    let redis = Redis::start();
    let upstream = Upstream::ok("hello");
    // Only the shutdown flushes.
    let mut gateway = Gateway::start(&yaml(&redis, &upstream.uri(), "}\nmetering: {flush-every: 1h}", ""));
    let load = Load::start(&[gateway.address], 8, &["/a"]);
    load.more(1_000);
    gateway.signal("TERM");
    let exchanges = load.join();
    assert_eq!(gateway.wait().code(), Some(0));
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
    let requests = exchanges.len() as u64;
    assert_eq!(sum(&redis, "a.k a.GET.2xx.requests"), requests);
    assert_eq!(sum(&redis, "a.k a.GET.2xx.bytes_out"), requests * 5);
}

#[test]
fn usage_of_two_gateways_is_exact_across_redis_outages() {
    let mut redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let upstream = Upstream::ok("hello");
    let config = yaml(&redis, &upstream.uri(), "}\nmetering: {flush-every: 5ms}", "");
    let mut gateways = [Gateway::start(&config), Gateway::start(&config)];
    let load = Load::start(&gateways.each_ref().map(|gateway| gateway.address), 8, &["/a"]);
    let flushed = |gateway: &Gateway| gateway.metric("tollgate_metering_flushed_requests_total", &[]);
    for _ in 0..3 {
        let before = gateways.each_ref().map(flushed);
        eventually("counts arrive", || {
            gateways.each_ref().map(flushed).iter().zip(before).all(|(now, was)| *now > was)
        });
        redis.freeze();
        load.more(200);
        redis.thaw();
        redis.kill();
        load.more(200);
        redis.restart();
    }
    let exchanges = load.stop();
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
    for gateway in &mut gateways {
        gateway.signal("TERM");
        assert_eq!(gateway.wait().code(), Some(0));
    }
    assert_eq!(sum(&redis, "a.k a.GET.2xx.requests"), exchanges.len() as u64);
}

#[test]
fn a_client_that_disconnects_is_counted_with_the_bytes_sent() {
    let redis = Redis::start();
    let upstream = Upstream::scripted(|stream, _| {
        while read_request(stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n0123456789");
        }
    });
    let gateway =
        Gateway::start(&yaml(&redis, &upstream.uri(), "}\nmetering: {flush-every: 10ms}", ", dimensions: none"));
    let mut client = gateway.connect();
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\nX-Key: k\r\n\r\n");
    let mut got = Vec::new();
    while !got.ends_with(b"0123456789") {
        let mut piece = [0; 1024];
        let length = std::io::Read::read(&mut client.stream(), &mut piece).unwrap();
        got.extend_from_slice(&piece[..length]);
    }
    assert_eq!(gateway.metric("tollgate_metering_counted_requests_total", &[]), 0.0, "the response has not ended");
    drop(client);
    eventually("it is counted", || sum(&redis, "a.k requests") == 1);
    assert_eq!(sum(&redis, "a.k bytes_out"), 10);
}

#[test]
fn a_counter_before_a_limiter_counts_all_requests_and_one_after_it_the_allowed() {
    let redis = Redis::start();
    let counter = |bucket: &str| {
        format!(
            "{{name: RequestCounter, args: {{key-resolver: route, bucket: {bucket}, dimensions: status, period: month}}}}"
        )
    };
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}', timeout: 5s}}\nmetering: {{flush-every: 10ms}}\nroutes: [{{id: r, uri: 'echo:', predicates: \
         [Path=/a], filters: [{}, {{name: RequestRateLimiter, args: {{replenish-rate: 1, requested-tokens: 3600, \
         burst-capacity: 7200, key-resolver: route}}}}, {}]}}]",
        redis.url(),
        counter("asked"),
        counter("passed")
    ));
    let mut client = gateway.connect();
    let statuses: Vec<u16> = (0..5).map(|_| client.request("GET", "/a", &[], b"").status).collect();
    assert_eq!(statuses, [200, 200, 429, 429, 429]);
    eventually("all are counted", || gateway.metric("tollgate_metering_flushed_requests_total", &[]) == 7.0);
    let requests = ["asked.r 2xx.requests", "asked.r 4xx.requests", "passed.r 2xx.requests", "passed.r 4xx.requests"];
    assert_eq!(requests.map(|field| sum(&redis, field)), [2, 3, 2, 0]);
}

#[test]
fn a_shutdown_without_redis_takes_seconds_and_logs_lost_usage() {
    let mut redis = Redis::start();
    let mut gateway = Gateway::start(&yaml(&redis, "echo:", "}\nmetering: {flush-every: 10ms}", ""));
    redis.kill();
    for _ in 0..3 {
        gateway.connect().request("GET", "/a", &[("x-key", "k")], b"");
    }
    eventually("batches wait", || gateway.metric("tollgate_metering_waiting_batches", &[]) > 0.0);
    let signalled = Instant::now();
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    assert!(signalled.elapsed() < Duration::from_secs(15), "{:?}", signalled.elapsed());
    assert!(gateway.log().contains("usage lost") && gateway.log().contains("requests=3"), "{}", gateway.log());
}

#[test]
fn a_counter_added_by_a_reload_uses_redis_and_hashes_secret_keys() {
    let redis = Redis::start();
    let plain = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a]}]";
    let gateway = Gateway::start(plain);
    gateway.reload(&yaml(&redis, "echo:", ", hash-keys: true}", ""));
    eventually("requests are counted", || {
        gateway.connect().request("GET", "/a", &[("x-key", "s3cret")], b"");
        gateway.metric("tollgate_metering_counted_requests_total", &[]) > 0.0
    });
    // Counted usage is still flushed after the last counter is removed.
    gateway.reload(&format!("redis: {{url: '{}'}}\n{plain}", redis.url()));
    let all = gateway.metric("tollgate_metering_counted_requests_total", &[]);
    eventually("all are present", || gateway.metric("tollgate_metering_flushed_requests_total", &[]) == all);
    let keys = redis.cli(&["--raw", "KEYS", "request_counter.*"]);
    // printf s3cret | sha256sum
    assert!(keys.contains("{a.#1EC1C26B50D5D3C58D9583181AF80766}") && !keys.contains("s3cret"), "{keys}");
}

#[test]
fn without_redis_usage_is_counted_in_memory() {
    let gateway = Gateway::start(
        "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: RequestCounter, args: {key-resolver: ip}}]}]",
    );
    for _ in 0..3 {
        gateway.get("/a");
    }
    eventually("three are counted", || gateway.metric("tollgate_metering_counted_requests_total", &[]) == 3.0);
    assert_eq!(gateway.metric("tollgate_metering_cells", &[]), 1.0);
}
