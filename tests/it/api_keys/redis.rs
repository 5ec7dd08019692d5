//! `api-keys.redis-hash`: keys in Redis, their cache, and guesses that do not load Redis.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::hash;
use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

const ALICE: &str = "alice-key-VfIy";
const BOB: &str = "bob-key-8fQx";

fn start(redis: &Redis, more: &str) -> Gateway {
    Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 2}}\nredis: {{url: '{}', timeout: 1s}}\napi-keys: {{redis-hash: keys{more}}}\n\
         routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [ApiKey]}}]",
        redis.url()
    ))
}

fn set(redis: &Redis, key: &str, entry: &Value) {
    redis.query::<i64>(&["HSET", "keys", &hash(key), &entry.to_string()]).unwrap();
}

fn status(gateway: &Gateway, key: &str) -> u16 {
    gateway.connect().request("GET", "/", &[("X-Api-Key", key)], b"").status
}

/// Returns the number of look-ups that Redis has had.
fn look_ups(redis: &Redis) -> u64 {
    let stats: String = redis.query(&["INFO", "commandstats"]).unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hget:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn changes_in_redis_count_within_the_time_of_the_cache() {
    let redis = Redis::start();
    set(&redis, ALICE, &json!({"id": "alice", "plan": "gold"}));
    set(&redis, BOB, &json!({"id": "bob", "sha256": hash(ALICE)}));
    let gateway = start(&redis, ", cache: 1s, unknown-limit: {burst-capacity: 1000}");
    assert_eq!(status(&gateway, ALICE), 200);
    assert_eq!(status(&gateway, BOB), 401, "a repeated hash must agree");
    gateway.logged("invalid api key entry in redis");
    for (entry, expected) in [
        (json!({"id": "alice", "disabled": true}), 401),
        (json!({"id": "alice", "routes": ["b"]}), 403),
        (json!({"id": "alice", "expires": "2020-01-01T00:00:00Z"}), 401),
        (json!({"id": "alice"}), 200),
    ] {
        set(&redis, ALICE, &entry);
        let changed = eventually("the change counts", || status(&gateway, ALICE) == expected);
        assert!(changed < Duration::from_millis(1500), "{entry} {changed:?}");
    }
    redis.query::<i64>(&["HDEL", "keys", &hash(ALICE)]).unwrap();
    eventually("the key is revoked", || status(&gateway, ALICE) == 401);
}

#[test]
fn guesses_of_64_callers_reach_redis_at_most_as_often_as_their_limit_allows() {
    let redis = Redis::start();
    set(&redis, ALICE, &json!({"id": "alice"}));
    let gateway = start(&redis, ", unknown-limit: {replenish-rate: 1, burst-capacity: 5}");
    assert_eq!(status(&gateway, ALICE), 200, "a key that is found is no guess");
    let (before, started) = (look_ups(&redis), Instant::now());
    let statuses: Vec<u16> = thread::scope(|scope| {
        let callers = (0..64).map(|caller| {
            let gateway = &gateway;
            scope.spawn(move || (0..5).map(|n| status(gateway, &format!("guess-{caller}-{n}"))).collect::<Vec<_>>())
        });
        callers.collect::<Vec<_>>().into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    let most = 5 + started.elapsed().as_secs() + 1;
    let asked = look_ups(&redis) - before;
    assert!((5..=most).contains(&asked), "{asked} of at most {most}");
    assert!(statuses.iter().filter(|status| **status == 401).count() as u64 <= most, "{statuses:?}");
    assert!(statuses.contains(&429));
    assert_eq!(status(&gateway, ALICE), 200, "a key that is known passes");
    // One that was not yet seen waits with the guesses.
    set(&redis, BOB, &json!({"id": "bob"}));
    assert_eq!(status(&gateway, BOB), 429);
    eventually("its turn comes", || status(&gateway, BOB) == 200);
}

#[test]
fn requests_with_one_key_share_a_look_up_and_an_unknown_key_is_remembered() {
    let redis = Redis::start();
    set(&redis, ALICE, &json!({"id": "alice"}));
    let gateway = start(&redis, ", cache: 1h");
    let ask = |key: &'static str| {
        let connections: Vec<Connection> = (0..32).map(|_| gateway.connect()).collect();
        thread::scope(|scope| {
            let all: Vec<_> = connections
                .into_iter()
                .map(|mut connection| {
                    scope.spawn(move || connection.request("GET", "/", &[("X-Api-Key", key)], b"").status)
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        })
    };
    redis.freeze();
    let frozen = thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(ALICE));
        thread::sleep(Duration::from_millis(300));
        redis.thaw();
        waiting.join().unwrap()
    });
    assert_eq!(frozen, [200; 32], "more callers than guesses");
    assert_eq!(look_ups(&redis), 1);
    let unknown = ask("guess");
    assert!(unknown.iter().all(|status| [401, 429].contains(status)), "{unknown:?}");
    assert_eq!(look_ups(&redis), 2);
}

#[test]
fn known_keys_go_on_for_a_while_without_redis_and_others_get_503() {
    let mut redis = Redis::start();
    set(&redis, ALICE, &json!({"id": "alice"}));
    set(&redis, BOB, &json!({"id": "bob"}));
    let gateway = start(&redis, ", cache: 100ms, keep: 3s");
    assert_eq!(status(&gateway, ALICE), 200);
    let seen = Instant::now();
    redis.kill();
    eventually("the connection is lost", || status(&gateway, BOB) == 503);
    for _ in 0..20 {
        assert_eq!(status(&gateway, BOB), 503, "no guess is counted while Redis is away");
    }
    if seen.elapsed() < Duration::from_secs(2) {
        assert_eq!(status(&gateway, ALICE), 200);
    }
    eventually("the time of `keep` is over", || status(&gateway, ALICE) == 503);
    redis.restart();
    set(&redis, BOB, &json!({"id": "bob"}));
    eventually("redis is back", || status(&gateway, BOB) == 200);
}

#[test]
fn a_key_of_another_type_in_place_of_the_hash_refuses_no_key_as_unknown() {
    let redis = Redis::start();
    set(&redis, ALICE, &json!({"id": "alice"}));
    let gateway = start(&redis, ", cache: 1ms");
    assert_eq!(status(&gateway, ALICE), 200);
    redis.query::<i64>(&["DEL", "keys"]).unwrap();
    redis.query::<()>(&["SET", "keys", "x"]).unwrap();
    for _ in 0..20 {
        assert_eq!((status(&gateway, ALICE), status(&gateway, BOB)), (200, 503));
    }
    gateway.logged("WRONGTYPE");
    assert_eq!(gateway.metric("tollgate_breaker_state", &[]), 0.0, "limits need not go on without Redis");
    redis.query::<i64>(&["DEL", "keys"]).unwrap();
    eventually("there is no key", || (status(&gateway, ALICE), status(&gateway, BOB)) == (401, 401));
}

#[test]
fn the_admin_port_lists_keys_and_disables_those_in_redis() {
    let redis = Redis::start();
    set(&redis, ALICE, &json!({"id": "alice", "plan": "gold", "expires": "2099-01-01T00:00:00Z"}));
    set(&redis, BOB, &json!({"id": "bob"}));
    redis.query::<i64>(&["HSET", "keys", "not-a-hash", "x"]).unwrap();
    let gateway = start(&redis, ", cache: 1h");
    assert_eq!((status(&gateway, ALICE), status(&gateway, ALICE), status(&gateway, BOB)), (200, 200, 200));
    let page = gateway.admin("/api/keys");
    let (text, listed) = (page.text(), page.json());
    assert!(!text.contains(&hash(ALICE)) && !text.contains(ALICE), "{text}");
    let key = |id: &str| listed["keys"].as_array().unwrap().iter().find(|key| key["id"] == id).unwrap().clone();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    eventually("the keys are counted", || gateway.metric("tollgate_api_keys", &[]) == 2.0);
    assert_eq!(gateway.metric("tollgate_api_keys_expiring", &[]), 0.0);
    let alice = key("alice");
    assert_eq!((&alice["plan"], &alice["requests"], &alice["state"]), (&json!("gold"), &json!(2), &json!("valid")));
    assert_eq!(alice["expires"], "2099-01-01T00:00:00Z");
    assert!(alice["last-used"].as_str().unwrap().ends_with(":00Z"), "{alice}");
    let post = |path: &str| gateway.connect_admin().request("POST", path, &[], b"");
    assert_eq!(post("/api/keys/alice/disable").json(), json!({"id": "alice", "disabled": true, "keys": 1}));
    assert_eq!(status(&gateway, ALICE), 401, "at once in this gateway");
    assert_eq!(gateway.admin("/api/keys?id=alice").json()["keys"][0]["state"], "disabled");
    let entry: String = redis.query(&["HGET", "keys", &hash(ALICE)]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&entry).unwrap()["plan"], "gold");
    assert_eq!(post("/api/keys/alice/enable").status, 200);
    assert_eq!(status(&gateway, ALICE), 200);
    assert_eq!(post("/api/keys/carol/disable").status, 404);
    gateway.logged("1 API keys of alice disabled");
}

#[test]
fn keys_in_redis_that_expire_soon_are_counted_and_not_named() {
    let redis = Redis::start();
    let after = |days: u64| humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(days * 86_400));
    for (key, days) in [("a", 13), ("b", 15), (ALICE, 1)] {
        set(&redis, key, &json!({"id": format!("id-{key}"), "expires": after(days).to_string()}));
    }
    set(&redis, "c", &json!({"id": "id-c", "expires": "2020-01-01T00:00:00Z"}));
    // No request can use these: another hash, digits in upper case, and an entry that is none.
    set(&redis, "d", &json!({"id": "id-d", "sha256": hash("a"), "expires": after(1).to_string()}));
    redis.query::<i64>(&["HSET", "keys", &hash(BOB).to_uppercase(), "{\"id\": \"upper\"}", "x", "y"]).unwrap();
    let gateway = start(&redis, "");
    eventually("they are counted", || gateway.metric("tollgate_api_keys", &[]) == 4.0 + 2.0);
    assert_eq!(gateway.metric("tollgate_api_keys_expiring", &[]), 2.0);
    assert!(!gateway.admin("/metrics").text().contains("id-"));
    assert_eq!(gateway.admin("/api/keys").json()["keys"].as_array().unwrap().len(), 4);
}

/// A count of 20,000 keys takes some twenty seconds.
#[test]
fn a_reload_does_not_wait_until_the_keys_are_counted() {
    let redis = Redis::start();
    let mut call: Vec<String> = vec!["HSET".into(), "keys".into()];
    call.extend((0..20_000).flat_map(|at| [format!("{at:064x}"), json!({"id": format!("id-{at}")}).to_string()]));
    redis.query::<i64>(&call.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let gateway = start(&redis, "");
    eventually("the count has begun", || {
        redis.query::<String>(&["INFO", "commandstats"]).unwrap().contains("cmdstat_hscan")
    });
    let config = std::fs::read_to_string(gateway.config()).unwrap();
    for _ in 0..3 {
        gateway.reload(&config);
    }
    assert_eq!(gateway.admin("/health/ready").status, 200);
}

#[test]
fn a_change_keeps_what_another_program_writes_meanwhile() {
    let redis = Redis::start();
    set(&redis, ALICE, &json!({"id": "alice"}));
    let gateway = start(&redis, "");
    assert_eq!(status(&gateway, ALICE), 200);
    let (is_done, field) = (AtomicBool::new(false), hash(ALICE));
    let changes = thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..1_000 {
                let plan = format!("plan-{turn}");
                let written = json!({"id": "alice", "plan": plan}).to_string();
                redis.query::<i64>(&["HSET", "keys", &field, &written]).unwrap();
                let entry: String = redis.query(&["HGET", "keys", &field]).unwrap();
                let stored: Value = serde_json::from_str(&entry).unwrap();
                if stored["plan"] != json!(plan) {
                    is_done.store(true, Relaxed);
                    panic!("the plan {plan} is lost: {stored}");
                }
            }
            is_done.store(true, Relaxed);
        });
        let mut changes = 0;
        let mut admin = gateway.connect_admin();
        while !is_done.load(Relaxed) {
            let word = if changes % 2 == 0 { "disable" } else { "enable" };
            let changed = admin.request("POST", &format!("/api/keys/alice/{word}"), &[], b"");
            assert!([200, 409].contains(&changed.status), "{}", changed.text());
            changes += usize::from(changed.status == 200);
        }
        changes
    });
    assert!(changes > 10, "{changes}");
}

#[test]
fn keys_work_in_redis_without_scripts_and_are_changed_there() {
    let redis = Redis::start_with(&["--rename-command", "EVALSHA", "", "--rename-command", "EVAL", ""]);
    set(&redis, ALICE, &json!({"id": "alice"}));
    let gateway = start(&redis, ", cache: 1ms");
    for _ in 0..2 {
        assert_eq!(status(&gateway, ALICE), 200);
        let refused = gateway.connect_admin().request("POST", "/api/keys/alice/disable", &[], b"");
        assert_eq!(refused.status, 409);
        assert!(refused.text().contains("set `disabled` of the entry there"), "{}", refused.text());
    }
    assert_eq!(gateway.admin("/api/keys").json()["keys"][0]["state"], "valid");
}
