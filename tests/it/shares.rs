//! `gateways`: each gateway admits its share of a limit while Redis is unreachable.

use crate::support::free_address;
use crate::support::gateway::Gateway;

/// Returns the number of requests that each of two gateways admits, of 60 with one key. No Redis listens.
fn admitted(arguments: &str) -> [usize; 2] {
    let [one, other, ..] = statuses(arguments).map(|statuses| statuses.iter().filter(|status| **status == 200).count());
    [one, other]
}

/// Returns the statuses of 60 requests with one key at each of three gateways.
fn statuses(arguments: &str) -> [Vec<u16>; 3] {
    let yaml = format!(
        "redis: {{url: 'redis://{}'}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: \
         RequestRateLimiter, args: {{key-resolver: 'header:x-key', {arguments}}}}}]}}]",
        free_address()
    );
    [(); 3].map(|()| {
        let gateway = Gateway::start(&yaml);
        let mut client = gateway.connect();
        let answers = (0..60).map(|_| client.request("GET", "/a", &[("x-key", "k")], b""));
        let statuses = answers.map(|answer| {
            assert!(answer.header("x-ratelimit-degraded").is_some());
            answer.status
        });
        statuses.collect()
    })
}

#[test]
fn each_of_two_gateways_admits_half() {
    for rule in [
        "replenish-rate: 1, period: 1h, burst-capacity: 50",
        "algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 50",
        "algorithm: fixed-window, limit: 50, window: 1h",
        "algorithm: fixed-window, limit: 50, window: 1h, atomicity: lock",
        "algorithm: sliding-window-log, limit: 50, window: 1h",
        "algorithm: sliding-window-counter, limit: 50, window: 8760h",
        "algorithm: quota, allowance: 50",
        "limits: [{name: rate, replenish-rate: 1, period: 1h, burst-capacity: 50}, \
         {name: stock, algorithm: quota, allowance: 80}]",
    ] {
        assert_eq!(admitted(&format!("{rule}, gateways: 2, on-store-failure: local")), [25, 25], "{rule}");
    }
    assert_eq!(admitted("replenish-rate: 1, period: 1h, burst-capacity: 50"), [50, 50], "by default each admits all");
}

#[test]
fn shares_of_less_than_one_request_exceed_no_limit() {
    for rule in [
        "replenish-rate: 1, period: 1h, burst-capacity: 2",
        "algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 2",
        "algorithm: fixed-window, limit: 2, window: 1h",
        "algorithm: fixed-window, limit: 2, window: 1h, atomicity: lock",
        "algorithm: sliding-window-log, limit: 2, window: 1h",
        "algorithm: sliding-window-counter, limit: 2, window: 8760h",
        "algorithm: quota, allowance: 2",
    ] {
        let statuses = statuses(&format!("{rule}, gateways: 3, on-store-failure: local"));
        assert!(statuses.iter().flatten().all(|status| *status == 503), "{rule}: {statuses:?}");
    }
    let admitted = |cost| {
        let rule = format!("replenish-rate: 1, period: 1h, burst-capacity: 20, cost: {cost}, gateways: 3");
        statuses(&rule).iter().flatten().filter(|status| **status == 200).count()
    };
    assert_eq!([admitted(6), admitted(7)], [3, 0], "a share of six tokens");
}
