//! Costs of requests, known before or after the response.

use super::{ask, in_redis, yaml};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, response};

const BUCKET: &str = "replenish-rate: 1, period: 1h, burst-capacity: 100, key-resolver: 'header:x-key'";

/// Starts gateways with `arguments` in memory and in Redis, in front of `upstream`.
fn both(redis: &Redis, upstream: &Upstream, arguments: &str) -> [Gateway; 2] {
    let arguments = format!("{BUCKET}, {arguments}");
    [yaml(&arguments), in_redis(redis, &arguments)].map(|yaml| Gateway::start(&yaml.replace("echo:", &upstream.uri())))
}

#[test]
fn the_cost_of_a_request_is_read_from_a_header() {
    let (redis, upstream) = (Redis::start(), Upstream::ok("hello"));
    for gateway in both(&redis, &upstream, "cost: 'header:X-Cost', requested-tokens: 2, max-cost: 50") {
        let mut client = gateway.connect();
        let mut left = |cost: &str| {
            let answer = client.request("GET", "/a", &[("x-key", "k"), ("x-cost", cost)], b"");
            let text = |name: &str| answer.header(name).unwrap().parse::<u64>().unwrap();
            (text("x-ratelimit-requested-tokens"), text("x-ratelimit-remaining"))
        };
        assert_eq!(left("10"), (10, 90));
        for bad in ["-5", "ten", "1e3", ""] {
            assert_eq!(left(bad).0, 2, "{bad}");
        }
        assert_eq!(left("99999999999999999999999"), (50, 32));
    }
}

#[test]
fn a_cost_in_the_response_is_settled_and_refunds_at_most_the_charge() {
    let redis = Redis::start();
    let upstream = Upstream::start(|request| {
        let cost = request.header("x-wanted").unwrap_or("").to_owned();
        response(200, &[("X-Cost", &cost)], b"")
    });
    for gateway in both(&redis, &upstream, "cost: 'response-header:X-Cost', requested-tokens: 10") {
        let mut client = gateway.connect();
        let mut spend = |wanted: &str| client.request("GET", "/a", &[("x-key", "k"), ("x-wanted", wanted)], b"");
        assert_eq!(spend("30").header("x-ratelimit-remaining"), Some("90"), "taken before");
        // A correction in Redis may still be in flight when the response arrives. A request that turns out to be
        // free reads the bucket and leaves it unchanged.
        let mut settled = |remaining: &str| {
            eventually("the difference is settled", || spend("0").header("x-ratelimit-remaining") == Some(remaining));
        };
        settled("60"); // 100 - 30, less the 10 reserved and given back
        spend("1000");
        eventually("all tokens are taken", || spend("0").status == 429);
    }
}

#[test]
fn request_bodies_cost_their_bytes_with_or_without_a_length() {
    let (redis, upstream) = (Redis::start(), Upstream::ok("hello"));
    for gateway in both(&redis, &upstream, "cost: body-bytes/10") {
        let mut client = gateway.connect();
        let announced = client.request("POST", "/a", &[("x-key", "k")], &[b'x'; 95]);
        assert_eq!(announced.header("x-ratelimit-remaining"), Some("90"));
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nX-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(format!("64\r\n{}\r\n64\r\n{}\r\n0\r\n\r\n", "y".repeat(100), "z".repeat(100)));
        assert_eq!(client.response().unwrap().header("x-ratelimit-remaining"), Some("89"), "a token before");
        eventually("the body is paid for", || {
            let answer = client.request("POST", "/a", &[("x-key", "k"), ("content-length", "0")], b"");
            answer.header("x-ratelimit-remaining") == Some("70")
        });
        let huge = client.request("POST", "/a", &[("x-key", "k")], &[b'x'; 2000]);
        assert_eq!((huge.status, huge.header("retry-after")), (429, None), "more than the bucket holds");
    }
    assert!(upstream.requests().iter().any(|request| request.body.len() == 200), "streamed on as it came");
}

#[test]
fn response_bodies_are_charged_under_every_rule_of_a_list() {
    let redis = Redis::start();
    let upstream = Upstream::start(|request| {
        let body = vec![b'x'; if request.header("x-small").is_some() { 0 } else { 1000 }];
        response(200, &[], &body)
    });
    let arguments = "key-resolver: 'header:x-key', headers: [draft], limits: [\
        {name: bytes, replenish-rate: 1, period: 1h, burst-capacity: 100, cost: response-body-bytes/100}, \
        {name: window, algorithm: fixed-window, limit: 100, window: 1h, cost: response-body-bytes/50}, \
        {name: count, replenish-rate: 1, period: 1h, burst-capacity: 100}]";
    for yaml in [yaml(arguments), in_redis(&redis, arguments)] {
        let gateway = Gateway::start(&yaml.replace("echo:", &upstream.uri()));
        let mut client = gateway.connect();
        assert_eq!(ask(&mut client, "k").body.len(), 1000);
        eventually("both rules are settled", || {
            let small = client.request("GET", "/a", &[("x-key", "k"), ("x-small", "1")], b"");
            let limit = small.header("ratelimit").unwrap();
            let left: Vec<&str> = limit.split(";r=").skip(1).map(|rest| rest.split(';').next().unwrap()).collect();
            left[..2] == ["89", "79"]
        });
    }
}
