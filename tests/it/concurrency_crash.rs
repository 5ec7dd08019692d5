//! Slots of `ConcurrencyLimiter` when a gateway is killed, shuts down, or loses Redis.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::concurrency::{Holding, LEASES, hold, quick, yaml};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Owners, and the microsecond at which each lease expires.
fn leases(redis: &Redis) -> BTreeMap<String, u64> {
    let listed = redis.cli(&["--raw", "ZRANGE", LEASES, "0", "-1", "WITHSCORES"]);
    let lines: Vec<&str> = listed.lines().collect();
    lines.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap())).collect()
}

/// Clock of Redis, in microseconds.
fn time_us(redis: &Redis) -> u64 {
    let time = redis.cli(&["--raw", "TIME"]);
    let mut parts = time.lines().map(|part| part.parse::<u64>().unwrap());
    parts.next().unwrap() * 1_000_000 + parts.next().unwrap()
}

#[test]
fn slots_of_a_killed_gateway_are_free_after_the_lease_and_not_before() {
    const SLOTS: usize = 50;
    const LEASE_US: u64 = 1_500_000;
    let (redis, upstream) = (Redis::start(), Holding::start());
    let yaml =
        yaml(Some(&redis), &upstream.upstream.uri(), &format!("limit: {SLOTS}, lease: 1500ms, renew-every: 300ms"));
    let (mut killed, other) = (Gateway::start(&yaml), Gateway::start(&yaml));
    let clients: Vec<_> = (0..SLOTS).map(|_| hold(&killed)).collect();
    eventually("all were renewed", || {
        killed.metric("tollgate_concurrency_renewals_total", &["outcome=\"renewed\""]) >= SLOTS as f64
    });
    killed.signal("KILL");
    killed.wait();
    let killed_us = time_us(&redis);
    let left = leases(&redis);
    assert_eq!(left.len(), SLOTS);
    let (first_us, last_us) = (*left.values().min().unwrap(), *left.values().max().unwrap());
    assert!(last_us <= killed_us + LEASE_US, "no lease is longer than it should be");

    let mut refused = 0;
    while time_us(&redis) < last_us {
        let answer = quick(&other);
        if answer.status == 200 {
            assert!(time_us(&redis) >= first_us, "a slot was given away before its lease ended");
            break;
        }
        assert_eq!(answer.status, 429);
        refused += 1;
        let now: Vec<_> = leases(&redis).into_iter().filter(|(owner, _)| left.contains_key(owner)).collect();
        assert!(now.iter().all(|(owner, end)| left[owner] == *end), "leases of a dead gateway are not renewed");
    }
    assert!(refused > 0);
    eventually("the last lease ends", || time_us(&redis) >= last_us);
    // All slots are free again.
    let held: Vec<_> = (0..SLOTS).map(|_| hold(&other)).collect();
    assert_eq!(quick(&other).status, 429);
    assert_eq!(leases(&redis).len(), SLOTS);
    println!("{refused} were refused in the {} ms that the leases had left", (last_us - killed_us) / 1000);
    // The gateway learns from the end of the bodies that nothing more is in flight.
    upstream.let_go();
    drop((held, clients));
    eventually("and given back", || leases(&redis).is_empty());
}

#[test]
fn an_ordered_shutdown_releases_every_slot() {
    let (redis, upstream) = (Redis::start(), Holding::start());
    let mut gateway = Gateway::start(&yaml(Some(&redis), &upstream.upstream.uri(), "limit: 9, lease: 1h"));
    let mut clients: Vec<_> = (0..5).map(|_| hold(&gateway)).collect();
    assert_eq!(leases(&redis).len(), 5);
    gateway.signal("TERM");
    gateway.logged("shutting down");
    // After the time in which the gateway still accepts connections: no request follows, and it ends with these.
    std::thread::sleep(Duration::from_millis(1_500));
    // A release then takes three round trips, and ends after the last connection.
    redis.cli(&["SCRIPT", "FLUSH"]);
    upstream.let_go();
    for client in &mut clients {
        assert_eq!(client.take(11), b"1\r\nb\r\n0\r\n\r\n");
    }
    assert!(gateway.wait().success());
    assert_eq!(leases(&redis).len(), 0);
}

#[test]
fn a_redis_that_hangs_delays_no_response_and_frees_slots_later() {
    let (redis, upstream) = (Redis::start(), Holding::start());
    let yaml = yaml(Some(&redis), &upstream.upstream.uri(), "limit: 1, lease: 1h");
    // A hang that ends before the connection is dropped.
    let gateway = Gateway::start(&yaml);
    let mut client = hold(&gateway);
    redis.freeze();
    upstream.let_go();
    let start = Instant::now();
    assert_eq!(client.take(11), b"1\r\nb\r\n0\r\n\r\n");
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "the response does not wait for the release: {:?}",
        start.elapsed()
    );
    redis.thaw();
    eventually("the slot is free", || quick(&gateway).status == 200);
}

#[test]
fn without_redis_each_gateway_enforces_the_limit_by_itself() {
    let (mut redis, upstream) = (Redis::start(), Holding::start());
    let yaml = yaml(Some(&redis), &upstream.upstream.uri(), "limit: 1").replace("deny", "local");
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    let in_redis = hold(&gateways[0]);
    assert_eq!(quick(&gateways[1]).status, 429);
    redis.kill();
    let here = gateways.each_ref().map(|gateway| {
        eventually("the loss is noticed", || gateway.metric("tollgate_redis_connections", &[]) == 0.0);
        let client = hold(gateway);
        let denied = quick(gateway);
        assert_eq!((denied.status, denied.header("x-ratelimit-degraded")), (429, Some("fallback")));
        client
    });
    redis.restart();
    eventually("Redis decides again, and has forgotten who held a slot", || {
        let answer = quick(&gateways[1]);
        answer.status == 200 && answer.header("x-ratelimit-degraded").is_none()
    });
    drop((here, in_redis));
}
