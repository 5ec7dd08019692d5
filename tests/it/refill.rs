//! `refill`: buckets whose tokens of a period come together, in memory and in Redis.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::client::{Connection, Response};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Runs `check` in memory and in Redis, for both algorithms with buckets, and for a rule of a list.
fn everywhere(check: impl Fn(&str, &dyn Fn(&str) -> String)) {
    let redis = Redis::start();
    for store in [String::new(), format!("redis: {{url: '{}', timeout: 5s}}\n", redis.url())] {
        for (number, args) in ["ARGS", "algorithm: gcra, ARGS", "limits: [{name: a, ARGS}]"].into_iter().enumerate() {
            let yaml = |rule: &str| {
                format!(
                    "{store}routes: [{{id: r{number}, uri: 'echo:', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, \
                     args: {{key-resolver: 'header:x-key', {}}}}}]}}]\n",
                    args.replace("ARGS", rule)
                )
            };
            check(&format!("{store}{args}"), &yaml);
        }
    }
}

fn ask(client: &mut Connection, key: &str) -> Response {
    client.request("GET", "/", &[("x-key", key)], b"")
}

fn retry_after(denied: &Response) -> u64 {
    assert_eq!(denied.status, 429);
    denied.header("retry-after").unwrap().parse().unwrap()
}

fn unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn the_tokens_of_an_interval_come_together_at_its_end() {
    everywhere(|place, yaml| {
        let gateway = Gateway::start(&yaml("replenish-rate: 3, period: 3s, burst-capacity: 3, refill: interval"));
        let mut client = gateway.connect();
        let key = "together";
        assert_eq!([(); 3].map(|()| ask(&mut client, key).status), [200; 3], "{place}");
        assert!((1..=3).contains(&retry_after(&ask(&mut client, key))), "{place}");
        eventually("the next period begins", || ask(&mut client, key).status == 200);
        assert_eq!([(); 2].map(|()| ask(&mut client, key).status), [200; 2], "{place}: all of them");
    });
}

#[test]
fn aligned_periods_begin_at_the_anchor_for_all_keys() {
    everywhere(|place, yaml| {
        // The next period begins in half an hour, so that none begins during the test.
        let hour = 3_600;
        let ends_at = unix_secs() + hour / 2;
        let anchor = jiff::Timestamp::from_second((ends_at - 5 * hour) as i64).unwrap();
        let rule =
            format!("replenish-rate: 1, period: 1h, burst-capacity: 1, refill: aligned, refill-anchor: '{anchor}'");
        let gateway = Gateway::start(&yaml(&rule));
        let mut client = gateway.connect();
        for key in ["anchor-a", "anchor-b"] {
            assert_eq!(ask(&mut client, key).status, 200, "{place}");
            let wait = retry_after(&ask(&mut client, key));
            assert!((ends_at - unix_secs()).abs_diff(wait) <= 2, "{place}: {wait} s");
        }
    });
}

/// A turn from or to `aligned` may admit one refill more.
#[test]
fn reloads_with_another_refill_return_no_spent_token() {
    everywhere(|place, yaml| {
        let rule =
            |refill: &str| yaml(&format!("replenish-rate: 3, period: 365d, burst-capacity: 3, refill: {refill}"));
        let refills = ["smooth", "interval", "smooth", "aligned", "interval", "aligned", "smooth"];
        let gateway = Gateway::start(&rule(refills[0]));
        for (at, pair) in refills.windows(2).enumerate() {
            let key = format!("reloaded-{at}");
            let mut client = gateway.connect();
            assert_eq!([(); 4].map(|()| ask(&mut client, &key).status), [200, 200, 200, 429], "{place}");
            gateway.reload(&rule(pair[1]));
            let mut client = gateway.connect();
            let admitted =
                [(); 7].map(|()| ask(&mut client, &key).status).iter().filter(|status| **status == 200).count();
            let most = if pair.contains(&"aligned") { 3 } else { 0 };
            assert!(admitted <= most, "{place}: {pair:?}: {admitted}");
        }
    });
}
