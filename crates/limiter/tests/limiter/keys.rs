//! Keys: no two collide, and all of a call are in one slot of a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::{BucketKey, redis_text};
use tollgate_limiter::rule::{Quota, Rule, TokenBucket};
use tollgate_limiter::store::memory::ManualClock;
use tollgate_limiter::store::{Check, OnStoreFailure, Store};

use crate::model::{KINDS, Rng, answer};
use crate::support::{RedisServer, store};

/// Key ids and scopes that try to collide with others.
const TRICKY: &[&str] = &[
    "a", "b", ".", "#", "{", "}", "%", "%2E", ":", "|", "=", "+", "rules", "gcra", "\0", "\n", " ", "é", "tokens",
    "}.{",
];

fn text(rng: &mut Rng) -> String {
    match rng.below(20) {
        0 => "k".repeat(rng.pick(&[128, 129, 2_048, 2_049, 5_000])),
        _ => (0..rng.below(5)).map(|_| rng.pick(TRICKY)).collect(),
    }
}

/// CRC16 of Redis Cluster (XMODEM) over the hash tag: the text between the first `{` and the next `}`.
fn slot(name: &[u8]) -> u16 {
    let open = name.iter().position(|&byte| byte == b'{').unwrap();
    let close = open + name[open..].iter().position(|&byte| byte == b'}').unwrap();
    assert!(close > open + 1, "the tag is not empty");
    name[open + 1..close].iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| if crc & 0x8000 > 0 { crc << 1 ^ 0x1021 } else { crc << 1 })
    }) % 16_384
}

#[test]
fn slots_match_redis() {
    // From the specification of Redis Cluster: CRC16 of 123456789 is 0x31C3.
    assert_eq!(slot(b"{123456789}"), 0x31C3);
    assert_eq!(slot(b"gcra.{user1000}"), slot(b"request_rate_limiter.{user1000}.tokens"));
}

#[tokio::test]
async fn all_keys_of_a_call_are_in_one_slot() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let redis = &mut server.connection();
    let mut rng = Rng::new(1);
    for _ in 0..100 {
        let (scope, id) = (text(&mut rng).replace('#', ""), text(&mut rng));
        for kind in KINDS {
            let rule = loop {
                let rule = (kind.rule)(&mut rng);
                if rule.capacity() > 0 {
                    break rule;
                }
            };
            for scope in [scope.clone(), format!("{scope}#rule")] {
                let check = Check { key: BucketKey { scope: &scope, id: id.as_bytes() }, rule: &rule, cost: 1 };
                assert!(answer(store.decide(&[check], &[])).await.remaining.is_some(), "{scope:?} {id:?}");
            }
        }
        let spring_slot = |scope: &str| {
            let mut name = Vec::new();
            redis_text::write(BucketKey { scope, id: id.as_bytes() }, false, &mut name);
            slot(&name)
        };
        let encoded_slot = |scope: &str| {
            let mut tag = b"{".to_vec();
            redis_text::write_scope(scope, &mut tag);
            tag.push(b'.');
            redis_text::write_id(id.as_bytes(), false, &mut tag);
            slot(&[&tag[..], b"}"].concat())
        };
        // Rules of a list share a key, except for those that limiters share.
        let scopes = if scope.is_empty() { vec!["", "#rule"] } else { vec![&*scope] };
        let names: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
        assert!(names.len() > KINDS.len(), "each algorithm has a key: {}", names.len());
        for name in &names {
            assert!(!name.contains(char::is_control), "{name:?}");
            let is_springs = name.starts_with("request_rate_limiter.");
            let slots = scopes.iter().map(|scope| if is_springs { spring_slot(scope) } else { encoded_slot(scope) });
            let slots: Vec<u16> = slots.collect();
            let braces = name.matches(['{', '}']).count();
            assert!(braces == 2 && slots.contains(&slot(name.as_bytes())), "{scope:?} {id:?}: {name:?}");
        }
        redis::cmd("FLUSHALL").exec(redis).unwrap();
    }
}

#[tokio::test]
async fn two_different_keys_never_share_a_bucket() {
    let server = RedisServer::start();
    let clock = Arc::new(ManualClock::default());
    clock.set(1_763_700_000_000_000);
    let store = store(&server.connected_client().await, OnStoreFailure::Deny).with_clock(clock);
    // They do not expire while the test runs. The token bucket has Spring's names.
    let day = Duration::from_secs(86_400);
    let rules = [Rule::Quota(Quota::new(10).unwrap()), Rule::TokenBucket(TokenBucket::new(1, day, 10).unwrap())];
    let (mut rng, mut known) = (Rng::new(2), BTreeSet::new());
    while known.len() < 3_000 {
        let (scope, id) = (text(&mut rng), text(&mut rng));
        if known.insert((scope.clone(), id.clone())) {
            for rule in &rules {
                let check = Check { key: BucketKey { scope: &scope, id: id.as_bytes() }, rule, cost: 1 };
                let remaining = answer(store.decide(&[check], &[])).await.remaining;
                assert_eq!(remaining, Some(9), "{scope:?} {id:?} collides with another key under {rule:?}");
            }
        }
    }
}
