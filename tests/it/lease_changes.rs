//! Changes of a key by an operator while gateways hold leases on it.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

const LIMIT: usize = 2_000;

/// Starts a gateway with two workers and leases of a second.
fn gateway(redis: &Redis, rule: &str) -> Gateway {
    Gateway::start(&format!(
        "server: {{address: 127.0.0.1, port: 0, workers: 2}}\nredis: {{url: '{}', timeout: 5s}}\naccess-log: {{output: off}}\n\
         routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: \
         {{key-resolver: 'header:x-key', lease: 1s, {rule}}}}}]}}]",
        redis.url()
    ))
}

/// Sends requests until one is denied. Returns the number of admitted ones.
fn drain(client: &mut Connection) -> usize {
    (0..).take_while(|_| client.request("GET", "/a", &[("x-key", "k")], b"").status == 200).count()
}

fn change(gateway: &Gateway, method: &str, body: &str) -> Value {
    let answer = Connection::open(gateway.admin).request(method, "/api/limits/a/k", &[], body.as_bytes());
    assert_eq!(answer.status, 200);
    answer.json()
}

#[test]
fn a_change_of_a_leased_key_holds_for_all_gateways() {
    let redis = Redis::start();
    for rule in [
        format!("algorithm: fixed-window, limit: {LIMIT}, window: 100000h, align: clock"),
        format!("algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: {LIMIT}"),
    ] {
        let [leasing, other] = [gateway(&redis, &rule), gateway(&redis, &rule)];
        let mut client = leasing.connect();
        for _ in 0..200 {
            assert_eq!(client.request("GET", "/a", &[("x-key", "k")], b"").status, 200);
        }
        let changed = change(&other, "PUT", r#"{"remaining": 0}"#);
        assert_eq!(changed["limits"][0]["leases-end-within-ms"], 1_000, "{changed}");
        let used = drain(&mut client);
        eventually("the leases are over", || drain(&mut leasing.connect()) == 0);
        // Leases would have ended, and returned their rest, a second after they were taken.
        let (changed, mut other_client) = (Instant::now(), other.connect());
        while changed.elapsed() < Duration::from_millis(1_300) {
            assert_eq!(drain(&mut other_client), 0, "{used} were used under {rule}");
        }
        let reset = change(&other, "DELETE", "");
        assert_eq!(reset["limits"][0]["remaining"], LIMIT, "{reset}");
        assert_eq!(drain(&mut other_client), LIMIT, "{rule}");
        // Both gateways count in Redis: nothing is left for the other one, in a lease or otherwise.
        assert_eq!(drain(&mut client), 0);
        let ended = change(&other, "DELETE", "");
        assert_eq!(ended["limits"][0]["leases-end-within-ms"], 1_000, "{ended}");
    }
}

#[test]
fn the_reply_to_a_reset_says_when_the_leases_of_the_key_are_over() {
    let redis = Redis::start();
    let rule = "algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 2000";
    let [leasing, other] = [gateway(&redis, rule), gateway(&redis, rule)];
    let mut client = leasing.connect();
    // A key is leased once it is busy.
    for _ in 0..200 {
        assert_eq!(client.request("GET", "/a", &[("x-key", "k")], b"").status, 200);
    }
    let reset = change(&other, "DELETE", "");
    assert_eq!(reset["limits"][0]["leases-end-within-ms"], 1_000, "{reset}");
    assert_eq!(reset["limits"][0]["remaining"], LIMIT, "{reset}");
    // What was leased before the reset is not admitted beside the full limit a second later.
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(drain(&mut other.connect()) + drain(&mut client), LIMIT);
}
