//! Limits that change between requests of one key: a reload, another plan, another route of a shared bucket. Together
//! they admit what the looser rule admits, since nothing that was spent comes back. The rates are too low to matter.

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Runs `check` for both algorithms with buckets, in memory and in Redis.
fn everywhere(check: impl Fn(&str, &str)) {
    let redis = Redis::start();
    for algorithm in ["token-bucket", "gcra"] {
        check("", algorithm);
        // The time is long enough for busy machines: the fallback must not decide.
        check(&format!("redis: {{url: '{}', timeout: 5s}}\n", redis.url()), algorithm);
    }
}

/// Sends `count` requests on one connection, which one worker serves. Returns the number admitted.
fn admitted(client: &mut Connection, path: &str, headers: &[(&str, &str)], count: usize) -> usize {
    (0..count)
        .filter(|_| match client.request("GET", path, headers, b"").status {
            200 => true,
            429 => false,
            other => panic!("{other}"),
        })
        .count()
}

#[test]
fn a_burst_lowered_and_raised_by_reloads_admits_no_more_than_the_larger_one() {
    everywhere(|store, algorithm| {
        let yaml = |burst: usize| {
            format!(
                "{store}routes: [{{id: 'reload-{algorithm}', uri: 'echo:', predicates: [Path=/a], filters: [\
                 {{name: RequestRateLimiter, args: {{algorithm: {algorithm}, replenish-rate: 1, period: 1h, \
                 burst-capacity: {burst}, key-resolver: 'header:x-key'}}}}]}}]\n"
            )
        };
        let gateway = Gateway::start(&yaml(200));
        let mut client = gateway.connect();
        let reload = |client: &mut Connection, burst: usize| {
            gateway.reload(&yaml(burst));
            let name = "x-ratelimit-burst-capacity";
            eventually("the worker has the new rule", || {
                let probe = client.request("GET", "/a", &[("x-key", "probe")], b"");
                probe.header(name) == Some(&burst.to_string())
            });
        };
        let key = [("x-key", "me")];
        assert_eq!(admitted(&mut client, "/a", &key, 150), 150);
        reload(&mut client, 10);
        assert_eq!(admitted(&mut client, "/a", &key, 30), 0, "150 are spent: {store}{algorithm}");
        assert_eq!(admitted(&mut client, "/a", &[("x-key", "new")], 30), 10);
        reload(&mut client, 200);
        assert_eq!(admitted(&mut client, "/a", &key, 250), 50, "200 in all: {store}{algorithm}");
        assert_eq!(admitted(&mut client, "/a", &[("x-key", "new")], 250), 190);
    });
}

#[test]
fn a_client_that_changes_its_plan_and_back_gets_no_more_than_the_larger_one() {
    everywhere(|store, algorithm| {
        let rule =
            |burst| format!("{{algorithm: {algorithm}, replenish-rate: 1, period: 1h, burst-capacity: {burst}}}");
        let (free, gold) = (rule(10), rule(100));
        let gateway = Gateway::start(&format!(
            "{store}routes: [{{id: 'plan-{algorithm}', uri: 'echo:', predicates: [Path=/a], filters: [\
             {{name: RequestRateLimiter, args: {{algorithm: {algorithm}, replenish-rate: 1, period: 1h, \
             burst-capacity: 1, key-resolver: 'header:x-key', plan-resolver: 'header:x-plan', \
             plans: {{free: {free}, gold: {gold}}}}}}}]}}]\n"
        ));
        let mut client = gateway.connect();
        let mut ask = |key, plan, count| admitted(&mut client, "/a", &[("x-key", key), ("x-plan", plan)], count);
        assert_eq!(ask("me", "gold", 60), 60);
        assert_eq!(ask("me", "free", 30), 0, "60 are spent: {store}{algorithm}");
        assert_eq!(ask("me", "gold", 150), 40, "100 in all: {store}{algorithm}");
        let by_turns = (0..150).map(|_| ask("turns", "gold", 1) + ask("turns", "free", 1)).sum::<usize>();
        assert_eq!(by_turns, 100, "{store}{algorithm}");
    });
}

#[test]
fn two_routes_with_different_bursts_on_one_bucket_admit_no_more_than_the_larger_one() {
    everywhere(|store, algorithm| {
        let route = |name: &str, burst: usize| {
            format!(
                "  - {{id: '{name}-{algorithm}', uri: 'echo:', predicates: [Path=/{name}], filters: [\
                 {{name: RequestRateLimiter, args: {{algorithm: {algorithm}, replenish-rate: 1, period: 1h, \
                 burst-capacity: {burst}, bucket: 'both-{algorithm}', key-resolver: 'header:x-key'}}}}]}}\n"
            )
        };
        let gateway = Gateway::start(&format!("{store}routes:\n{}{}", route("wide", 20), route("tight", 10)));
        let mut client = gateway.connect();
        let mut ask = |key, path, count| admitted(&mut client, path, &[("x-key", key)], count);
        assert_eq!(ask("me", "/wide", 15), 15);
        assert_eq!(ask("me", "/tight", 30), 0, "15 are spent: {store}{algorithm}");
        assert_eq!(ask("me", "/wide", 30), 5, "20 in all: {store}{algorithm}");
        let by_turns = (0..60).map(|_| ask("turns", "/tight", 1) + ask("turns", "/wide", 1)).sum::<usize>();
        assert_eq!(by_turns, 20, "{store}{algorithm}");
        assert_eq!(ask("other", "/tight", 30) + ask("other", "/wide", 30), 20, "{store}{algorithm}");
    });
}

#[test]
fn a_reload_says_that_renamed_limits_begin_full_in_redis() {
    let redis = Redis::start();
    let bucket = "replenish-rate: 1, period: 1h, burst-capacity: 20";
    let yaml = |store: &str, limit: &str| {
        format!(
            "redis: {{url: '{}'}}\nroutes: [{{id: renamed, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, \
             args: {{key-resolver: ip, {store}{limit}}}}}]}}]\n",
            redis.url()
        )
    };
    let named = format!("limits: [{{name: a, {bucket}}}, {{name: b, {bucket}}}]");
    let unnamed = format!("limits: [{{{bucket}}}, {{{bucket}}}]");
    for (store, list, expected) in [("store: memory, ", &named, 0), ("", &named, 1), ("", &unnamed, 0)] {
        let gateway = Gateway::start(&yaml(store, bucket));
        gateway.reload(&yaml(store, list));
        gateway.reload(&yaml(store, &list.replace("burst-capacity: 20", "burst-capacity: 30")));
        let logged = gateway.log().matches("limits begin full in redis").count();
        assert_eq!(logged, expected, "once: {}", gateway.log());
    }
}
