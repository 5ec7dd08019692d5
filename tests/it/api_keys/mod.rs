//! `api-keys`: only keys whose hash is configured are accepted, and no page and no log shows one.

mod pages;
mod redis;
mod revocation;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use crate::support::client::Response;
use crate::support::eventually;
use crate::support::gateway::{Gateway, command, run};
use crate::support::upstream::{Upstream, response};

/// Keys of the tests, by id.
const ALICE: &str = "alice-key-VfIy";
const BOB: &str = "bob-key-8fQx";
const BOB_2: &str = "bob-key-Zz3w";
const OLD: &str = "old-key-77aP";
const OFF: &str = "off-key-19Lm";
const TILL: &str = "till-key-p4Rt";

/// Returns the hash of a key, as the command prints it.
pub fn hash(key: &str) -> String {
    let mut child = command().args(["keys", "hash"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{key}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A file of keys.
struct Keys {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Keys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.yaml");
        let keys = Self { _folder: folder, path };
        keys.write(&keys.all());
        keys
    }

    fn all(&self) -> String {
        [
            format!("- {{id: alice, sha256: {}, plan: gold}}", hash(ALICE)),
            format!("- {{id: bob, sha256: {}, plan: free}}", hash(BOB)),
            format!("- {{id: bob, sha256: {}, plan: free}}", hash(BOB_2)),
            format!("- {{id: old, sha256: {}, expires: 2020-01-01T00:00:00Z}}", hash(OLD)),
            format!("- {{id: off, sha256: {}, disabled: true}}", hash(OFF)),
            format!("- {{id: till, sha256: {}, routes: [till]}}", hash(TILL)),
        ]
        .join("\n")
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    /// Starts a gateway with these keys and `routes`. `more` are further settings of the section.
    fn gateway(&self, more: &str, routes: &str) -> Gateway {
        Gateway::start(&yaml(&self.path, more, routes))
    }
}

fn yaml(path: &Path, more: &str, routes: &str) -> String {
    format!("api-keys: {{file: '{}'{more}}}\nroutes:\n{routes}\n", path.display())
}

/// Enough guesses for a test that is not about them.
const GUESSES: &str = ", unknown-limit: {burst-capacity: 1000}, from: ['header:X-Api-Key', bearer, 'query:api_key']";
const OPEN: &str = "  - {id: a, uri: 'echo:', predicates: [Path=/**], filters: [ApiKey]}";

fn call(gateway: &Gateway, path: &str, fields: &[(&str, &str)]) -> Response {
    gateway.connect().request("GET", path, fields, b"")
}

fn status(gateway: &Gateway, key: &str) -> u16 {
    call(gateway, "/", &[("X-Api-Key", key)]).status
}

#[test]
fn only_known_keys_reach_the_upstream_which_gets_their_id_in_place_of_the_key() {
    let keys = Keys::new();
    let upstream = Upstream::start(|request| response(200, &[], format!("{request:?}").as_bytes()));
    let route = |filter: &str| {
        format!("  - {{id: a, uri: '{}', predicates: [Path=/**], filters: ['{filter}']}}", upstream.uri())
    };
    let gateway = keys.gateway(GUESSES, &route("ApiKey"));
    let authorization = format!("Bearer {ALICE}");
    for (path, fields) in [
        ("/a?x=1".to_owned(), vec![("X-Api-Key", ALICE), ("X-Api-Key-Id", "forged")]),
        ("/a?x=1".to_owned(), vec![("Authorization", authorization.as_str())]),
        (format!("/a?x=1&api_key={ALICE}"), vec![("x-api-key-id", "forged"), ("X-Api-Key-Id", "again")]),
        (format!("/a?x=1&api%5Fkey={ALICE}"), vec![("X-Api-Key", ALICE), ("X-Api-Key", ALICE)]),
    ] {
        let response = call(&gateway, &path, &fields);
        assert_eq!(response.status, 200, "{path} {fields:?}");
        let seen = response.text().to_lowercase();
        assert!(seen.contains("alice") && seen.contains("x-api-key-id") && seen.contains("/a?x=1"), "{seen}");
        assert!(!seen.contains(&ALICE.to_lowercase()) && !seen.contains("forged") && !seen.contains("again"), "{seen}");
    }
    for (fields, expected) in [
        (vec![], 401),
        (vec![("X-Api-Key", "guess")], 401),
        (vec![("X-Api-Key", "ALICE-KEY-VFIY")], 401),
        (vec![("X-Api-Key", "alice-key- VfIy")], 401),
        (vec![("X-Api-Key", ALICE), ("X-Api-Key", BOB)], 401),
        (vec![("X-Api-Key", BOB), ("Authorization", &authorization)], 401),
        (vec![("X-Api-Key", OLD)], 401),
        (vec![("X-Api-Key", OFF)], 401),
        (vec![("X-Api-Key", TILL)], 403),
        (vec![("X-Api-Key", "  alice-key-VfIy\t")], 200),
    ] {
        let response = call(&gateway, "/", &fields);
        assert_eq!(response.status, expected, "{fields:?}");
        assert_eq!(response.header("www-authenticate").is_some(), expected == 401, "{fields:?}");
    }
    let forwarding = keys.gateway(GUESSES, &route("ApiKey=true,true"));
    let seen = call(&forwarding, "/", &[("X-Api-Key", ALICE), ("X-Api-Key-Id", "forged")]).text();
    assert!(seen.contains(ALICE) && seen.contains("alice\"") && !seen.contains("forged"), "{seen}");
    let optional = keys.gateway(GUESSES, &route("ApiKey=false"));
    let without = call(&optional, "/", &[("X-Api-Key-Id", "forged"), ("Authorization", "Bearer eyJh.e30.x")]);
    assert_eq!(without.status, 200, "a token in the form of a JWT is no API key");
    assert!(!without.text().contains("forged") && without.text().contains("eyJh.e30.x"));
    assert_eq!(status(&optional, "guess"), 401);
}

#[test]
fn keys_with_one_id_share_a_bucket_and_plans_are_those_of_the_keys() {
    let keys = Keys::new();
    let limiter = "{name: RequestRateLimiter, args: {key-resolver: api-key, plan-resolver: api-key, empty-key-status: 400, replenish-rate: 1, \
                   burst-capacity: 2, plans: {free: {replenish-rate: 1, burst-capacity: 3}, gold: {replenish-rate: 1, burst-capacity: 5}}}}";
    let gateway = keys.gateway(
        GUESSES,
        &format!(
            "  - {{id: a, uri: 'echo:', predicates: [Path=/a], filters: [ApiKey, {limiter}]}}\n  - {{id: till, uri: 'echo:', predicates: [Path=/**], filters: [{limiter}]}}"
        ),
    );
    let capacity = |path: &str, key: &str| {
        let response = call(&gateway, path, &[("X-Api-Key", key)]);
        (response.status, response.header("x-ratelimit-burst-capacity").map(str::to_owned))
    };
    assert_eq!(capacity("/a", ALICE), (200, Some("5".to_owned())));
    let allowed: Vec<u16> = [BOB, BOB_2, BOB, BOB_2].map(|key| capacity("/a", key).0).into();
    assert_eq!(allowed, [200, 200, 200, 429], "two keys of one id");
    // Routes without the filter: an unknown key is no key, and forwarded.
    assert_eq!(capacity("/b", TILL), (200, Some("2".to_owned())), "a key without a plan");
    for key in ["guess", OLD, OFF, ""] {
        assert_eq!(capacity("/b", key).0, 400, "{key}");
    }
    let echoed = call(&gateway, "/b", &[("X-Api-Key", TILL), ("X-Api-Key-Id", "forged")]).text();
    assert!(!echoed.contains("forged"), "{echoed}");
}

#[test]
fn guesses_are_limited_by_address_and_known_keys_pass_nevertheless() {
    let keys = Keys::new();
    let gateway = keys.gateway(", unknown-limit: {replenish-rate: 1, burst-capacity: 3}", OPEN);
    for _ in 0..20 {
        assert_eq!(call(&gateway, "/", &[]).status, 401, "an absent key is no guess");
    }
    let started = Instant::now();
    let twice = [("X-Api-Key", ALICE), ("X-Api-Key", BOB)];
    let mut refused: Vec<u16> = vec![call(&gateway, "/", &twice).status];
    refused.extend((0..20).map(|guess| status(&gateway, &format!("guess-{guess}"))));
    let limited = refused.iter().filter(|status| **status == 429).count();
    let most = 3 + started.elapsed().as_secs() as usize + 1;
    assert!(refused.iter().all(|status| [401, 429].contains(status)) && refused.len() - limited <= most, "{refused:?}");
    assert_eq!(refused[..3], [401; 3]);
    let denied = call(&gateway, "/", &twice);
    assert_eq!((denied.status, denied.header("retry-after")), (429, Some("1")));
    assert_eq!(status(&gateway, ALICE), 200);
}

#[test]
fn a_reload_revokes_keys_and_a_broken_file_changes_nothing() {
    let keys = Keys::new();
    let gateway = keys.gateway(GUESSES, OPEN);
    let mut connection = gateway.connect();
    let mut open = |key: &str| connection.request("GET", "/", &[("X-Api-Key", key)], b"").status;
    assert_eq!(open(ALICE), 200);
    let config = std::fs::read_to_string(gateway.config()).unwrap();
    keys.write(&format!("- {{id: alice, key: {ALICE}}}"));
    gateway.reload(&config);
    gateway.logged("clear text");
    assert_eq!(open(ALICE), 200);
    assert!(!gateway.log().contains(ALICE), "the log shows a key");
    keys.write(&format!("- {{id: bob, sha256: {}}}", hash(BOB)));
    gateway.reload(&config);
    assert_eq!(open(ALICE), 401, "revoked within an open connection");
    assert_eq!(open(BOB), 200);
}

#[test]
fn a_key_expires_at_its_time_without_a_reload() {
    let keys = Keys::new();
    let expires = humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(3));
    keys.write(&format!("- {{id: alice, sha256: {}, expires: {expires}}}", hash(ALICE)));
    let gateway = keys.gateway(GUESSES, OPEN);
    assert_eq!(status(&gateway, ALICE), 200);
    eventually("the key expires", || status(&gateway, ALICE) == 401);
}

#[test]
fn a_new_key_is_printed_once_with_its_entry() {
    let arguments =
        ["keys", "new", "--id", "carol", "--plan", "gold", "--route", "a", "--expires", "2099-01-01T00:00:00Z"];
    let (code, out, err) = run(&arguments);
    assert_eq!(code, Some(0), "{err}");
    let (key, entry) = out.trim_end().split_once('\n').unwrap();
    assert!(key.len() == 43 && !entry.contains(key) && !err.contains(key), "{out}");
    assert!(entry.contains(&hash(key)), "{out}");
    let keys = Keys::new();
    keys.write(entry);
    assert_eq!(status(&keys.gateway("", OPEN), key), 200);
    assert_ne!(run(&arguments).1, out, "another key");
    let (code, out, err) = run(&["keys", "new", "--id", "two words"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("visible ASCII"), "{err}");
}
