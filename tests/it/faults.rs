//! Redis replies that are late, invalid or errors, as clients see them.

use std::time::Instant;

use tollgate_test_support::{ERRORS, Fault, FaultProxy};

use crate::outage::{PATHS, assert_bearable, recovered, yaml};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::load::{Exchange, Load};
use crate::support::redis::Redis;

/// Injects each fault in turn under load: no 5xx unless configured, no delayed request, and Redis decides again.
fn borne(faults: impl IntoIterator<Item = (String, Fault)>) {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address);
    let gateway = Gateway::start(&yaml(&proxy.url(), 1_000_000));
    for (name, fault) in faults {
        let load = Load::start(&[gateway.address], 6, PATHS);
        load.more(60);
        proxy.set(fault);
        let begin = Instant::now();
        load.more(300);
        let end = Instant::now();
        proxy.set(Fault::Pass);
        let back = recovered(&gateway, end);
        let exchanges = load.stop();
        println!("{name}: decided in redis again after {back:?}");
        assert_bearable(&exchanges, begin, end);
        assert_undisclosed(&exchanges);
        assert!(back.as_secs() < 3, "{name}: {back:?}");
        let degraded = exchanges.iter().filter(|exchange| exchange.header("x-ratelimit-degraded").is_some());
        assert!(degraded.count() > 0, "{name} was felt");
        assert!(exchanges.iter().any(|e| e.path == "/deny" && e.status() == 503), "{name}: and refused by policy");
    }
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
}

/// Checks that no response contains the code or the text of an error reply of Redis.
fn assert_undisclosed(exchanges: &[Exchange]) {
    for answer in exchanges.iter().filter_map(|exchange| exchange.answer.as_ref()) {
        let shown = format!("{:?} {}", answer.headers, answer.text());
        for error in ERRORS {
            let (code, text) = error.split_once(' ').unwrap();
            let is_disclosed = (code != "ERR" && shown.contains(code)) || shown.contains(text);
            assert!(!is_disclosed, "{error} is disclosed: {shown}");
        }
    }
}

#[test]
fn redis_errors_cause_no_5xx() {
    borne(ERRORS.map(|error| (error[..10].to_owned(), Fault::error(error))));
}

#[test]
fn invalid_redis_replies_cause_no_5xx() {
    let faults = [
        ("cut", Fault::Cut),
        ("garbage", Fault::garbage()),
        ("another kind", Fault::wrong_type()),
        ("huge text", Fault::huge_text()),
        ("huge list", Fault::huge_list()),
    ];
    borne(faults.map(|(name, fault)| (name.to_owned(), fault)));
}

#[test]
fn redis_timeouts_cause_no_5xx() {
    let late = Fault::Delay(std::time::Duration::from_secs(3));
    let faults =
        [("black hole", Fault::BlackHole), ("late", late), ("held", Fault::HoldReplies), ("refused", Fault::Refuse)];
    borne(faults.map(|(name, fault)| (name.to_owned(), fault)));
}
