//! Values of other programs under the limiter's keys: a key never admits more than its capacity once again, and a value
//! that stays is a failure of the store.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{
    Align, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tollgate_limiter::store::redis::RedisClient;
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;

use crate::lock::locked;
use crate::model::answer;
use crate::support::{RedisServer, store};

const LIMIT: usize = 5;
const HOUR: Duration = Duration::from_secs(3_600);

/// Commands that put a foreign value under the key `K`; without `DEL` it is added to the state.
const FOREIGN: &[&str] = &[
    "DEL K|SET K text",
    "DEL K|SET K nan",
    "DEL K|SET K inf",
    "DEL K|SET K -1e999",
    "DEL K|SET K ;;;",
    "DEL K|SET K 1=2|x",
    "DEL K|SET K -1.5",
    "DEL K|HSET K f v",
    "DEL K|RPUSH K 1",
    "DEL K|SADD K 1",
    "DEL K|XADD K * f v",
    "DEL K|ZADD K 1 foreign",
    "DEL K|ZADD K 9e15 foreign",
    "DEL K|ZADD K +inf foreign",
    "DEL K|ZADD K -inf foreign 5 1:2 9e15 3:x",
    "ZADD K 9e15 foreign",
    "ZADD K +inf foreign",
    "ZADD K +inf 7:1",
    "ZADD K 300000000000000 foreign",
];

fn rules() -> Vec<Rule> {
    let bucket = TokenBucket::new(1, HOUR * 1_000, LIMIT as u64).unwrap();
    let limit = LIMIT as u64;
    vec![
        Rule::TokenBucket(bucket.clone()),
        Rule::Gcra(bucket),
        Rule::FixedWindow(FixedWindow::new(limit, HOUR, Align::First).unwrap()),
        Rule::SlidingWindowLog(SlidingWindowLog::new(limit, HOUR).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, HOUR * 876_000).unwrap()),
        Rule::LeakyBucket(
            LeakyBucket::new(1, HOUR)
                .unwrap()
                .with_max_wait(HOUR * 10)
                .unwrap()
                .with_max_queue(limit - 1)
                .unwrap()
                .with_warm_up(HOUR)
                .unwrap(),
        ),
        Rule::Quota(Quota::new(limit).unwrap()),
    ]
}

/// Puts a foreign value under each key. Returns false if the server refuses it, as a member of a string.
fn put(server: &RedisServer, commands: &str) -> bool {
    let keys: Vec<String> = server.query(&["KEYS", "*"]).unwrap();
    keys.iter().filter(|key| !key.contains("lock")).all(|key| {
        // A value may contain the separator.
        commands.replace("|x", "\u{1}x").split('|').all(|command| {
            let words: Vec<String> = command
                .split(' ')
                .map(|word| if word == "K" { key.clone() } else { word.replace('\u{1}', "|") })
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            server.query::<redis::Value>(&words).is_ok()
        })
    })
}

/// Returns the requests that Redis admits after the value was put, of 30.
async fn admitted(server: &RedisServer, store: &impl Store, checks: &[Check<'_>], commands: &str) -> Option<usize> {
    server.query::<()>(&["FLUSHALL"]).unwrap();
    for _ in 0..2 {
        assert!(answer(store.decide(checks, &[])).await.is_allowed());
    }
    if !put(server, commands) {
        return None;
    }
    let mut admitted = 0;
    for _ in 0..30 {
        let verdict = answer(store.decide(checks, &[])).await;
        assert!(verdict.source != Source::Fallback || !verdict.is_allowed());
        admitted += usize::from(verdict.is_allowed());
    }
    Some(admitted)
}

#[tokio::test]
async fn a_foreign_value_admits_at_most_the_capacity_once_more() {
    let server = RedisServer::start();
    let client: Arc<RedisClient> = server.connected_client().await;
    let mut put = 0;
    for rule in rules() {
        let scripts = store(&client, OnStoreFailure::Deny).denial_cache(false);
        let one = Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost: 1 };
        let listed = Check { key: BucketKey { scope: "r#second", id: b"k" }, ..one };
        for commands in FOREIGN {
            for checks in [&[one][..], &[one, listed]] {
                let admitted = admitted(&server, &scripts, checks, commands).await;
                assert!(admitted.is_none_or(|n| n <= LIMIT), "{admitted:?} after {commands} under {rule:?}");
                put += usize::from(admitted.is_some());
            }
        }
    }
    assert!(put > 180, "{put}");
}

#[tokio::test]
async fn a_foreign_value_admits_at_most_the_capacity_once_more_under_a_lock() {
    let server = RedisServer::start();
    let store = locked(&server);
    for rule in rules().iter().filter(|rule| rule.algorithm().spec().lockable) {
        let check = Check { key: BucketKey { scope: "r", id: b"k" }, rule, cost: 1 };
        for commands in FOREIGN {
            let admitted = admitted(&server, &store, &[check], commands).await;
            assert!(admitted.is_none_or(|n| n <= LIMIT), "{admitted:?} after {commands} under {rule:?}");
        }
    }
}

#[test]
fn a_foreign_lease_or_override_deletes_no_others() {
    let server = RedisServer::start();
    for (key, foreign, text, args) in [
        (
            "leases",
            &["ZADD", "leases", "+inf", "foreign"][..],
            include_str!("../../lua/concurrency.lua"),
            &["acquire", "one", "2", "1000000", ""][..],
        ),
        (
            "overrides",
            &["HSET", "overrides", "foreign", "99999999999999999999999999:x", "v", "inf"],
            include_str!("../../lua/overrides.lua"),
            &["set", "[orders]", "limit-5", "60000", "256"],
        ),
    ] {
        server.query::<()>(foreign).unwrap();
        let call = [&["EVAL", text, "1", key], args].concat();
        assert_ne!(server.query::<Vec<String>>(&call).unwrap().first().unwrap(), "0", "{key}");
        let pttl: i64 = server.query(&["PTTL", key]).unwrap();
        assert!((1_000..=31_536_001_001).contains(&pttl), "{key} expires in {pttl} ms");
    }
}

#[tokio::test]
async fn a_foreign_member_of_a_log_is_a_failure_of_the_store() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let rule = Rule::SlidingWindowLog(SlidingWindowLog::new(5, HOUR).unwrap());
    let check = Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost: 1 };
    for (policy, is_allowed) in [(OnStoreFailure::Deny, false), (OnStoreFailure::Local, true)] {
        server.query::<()>(&["FLUSHALL"]).unwrap();
        let store = store(&client, policy);
        assert_eq!(answer(store.decide(&[check], &[])).await.source, Source::Redis);
        assert!(put(&server, "ZADD K 9e15 foreign"));
        let verdict = answer(store.decide(&[check], &[])).await;
        assert_eq!((verdict.source, verdict.is_allowed()), (Source::Fallback, is_allowed), "{policy:?}");
    }
}

#[test]
fn a_return_to_a_log_with_a_foreign_member_removes_nothing() {
    let server = RedisServer::start();
    let text = include_str!("../../lua/sliding_window_log.lua");
    let call = |now: u64, cost: &str, at: &str| {
        let now = now.to_string();
        server.query::<Vec<i64>>(&["EVAL", text, "1", "entries", "100", "3600000000", &now, cost, at])
    };
    let start = 1_700_000_000;
    // The earlier entries are rewritten, and the later ones.
    for (foreign, taken) in [("1700000004500000", "1700000008000000"), ("1700000014500000", "1700000012000000")] {
        server.query::<()>(&["FLUSHALL"]).unwrap();
        for second in 1..=18 {
            assert_eq!(call(start + second, "2", "").unwrap()[0], 1);
        }
        server.query::<()>(&["ZADD", "entries", foreign, "foreign"]).unwrap();
        let members = || server.query::<Vec<String>>(&["ZRANGE", "entries", "0", "-1", "WITHSCORES"]).unwrap();
        let before = members();
        assert!(before.len() >= 2 * 19 && call(start + 20, "0", "").unwrap()[1] == 100 - 36, "{before:?}");
        let returned = call(start + 20, "-1", taken);
        assert!(returned.is_err(), "{returned:?}");
        assert_eq!(members(), before, "foreign member at {foreign}");
    }
}
