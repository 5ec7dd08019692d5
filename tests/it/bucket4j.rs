//! Spring's second limiter: an application.yml with arguments of Bucket4j.

use std::fs;

use crate::support::eventually;
use crate::support::gateway::{Gateway, run};
use crate::support::redis::Redis;

/// Two routes with the limiter, as an application has them.
fn file(settings: &str, style: &str) -> String {
    let route = |id: &str| {
        format!(
            "          - id: {id}
            uri: 'echo:'
            predicates: [Path=/{id}/**]
            filters:
              - name: RequestRateLimiter
                args:
                  rate-limiter: '#{{@bucket4jRateLimiter}}'
                  key-resolver: 'header:x-key'
                  bucket4j-rate-limiter.capacity: 3
                  bucket4j-rate-limiter.refillPeriod: 1h
{style}"
        )
    };
    format!("{settings}spring:\n  cloud:\n    gateway:\n      routes:\n{}{}", route("a"), route("b"))
}

const INTERVALLY: &str = "                  bucket4j-rate-limiter.refill-style: INTERVALLY\n";

fn statuses(gateway: &Gateway, key: &str) -> [u16; 4] {
    let mut client = gateway.connect();
    ["/a/1", "/b/1", "/a/2", "/b/2"].map(|path| client.request("GET", path, &[("x-key", key)], b"").status)
}

#[test]
fn routes_share_the_bucket_of_a_key_and_send_one_field() {
    let redis = Redis::start();
    let in_redis = format!("spring.data.redis.url: {}\n", redis.url());
    for settings in ["", &in_redis] {
        for style in ["", INTERVALLY] {
            let gateway = Gateway::start(&file(settings, style));
            let key = format!("k{}", style.len());
            assert_eq!(statuses(&gateway, &key), [200, 200, 200, 429], "{settings}{style}");
            let denied = gateway.connect().request("GET", "/a", &[("x-key", &key)], b"");
            assert_eq!((denied.status, denied.header("x-ratelimit-remaining")), (429, Some("0")));
            assert_eq!(denied.header("x-ratelimit-burst-capacity"), None);
            let wait: u64 = denied.header("retry-after").unwrap().parse().unwrap();
            let expected = if style.is_empty() { 1_100..=1_200 } else { 3_500..=3_600 };
            assert!(expected.contains(&wait), "{settings}{style}: {wait} s");
        }
    }
}

#[test]
fn a_failing_store_denies_as_in_spring() {
    let mut redis = Redis::start();
    let gateway = Gateway::start(&file(&format!("spring.data.redis.url: {}\n", redis.url()), ""));
    assert_eq!(statuses(&gateway, "k")[0], 200);
    redis.kill();
    eventually("the store fails", || statuses(&gateway, "other")[0] == 503);
}

#[test]
fn check_tells_what_the_limiter_does_and_the_migrated_file_is_explained_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (spring, own) = (path("application.yml"), path("own.yaml"));
    let style = format!(
        "{INTERVALLY}                  bucket4j-rate-limiter.header-name: X-Left\n                  \
         bucket4j-rate-limiter.refill-tokens: 2\n                  bucket4j-rate-limiter.requestedTokens: 2\n"
    )
    .replace(
        "INTERVALLY\n",
        "INTERVALLY_ALIGNED\n                  bucket4j-rate-limiter.time-of-first-refill: 2027-01-01T00:00:00Z\n",
    );
    fs::write(&spring, file("spring.data.redis.host: redis.test\n", &style)).unwrap();
    let (code, out, err) = run(&["check", "--offline", &spring]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(format!("{out}{err}").contains("the key alone names the bucket, as in Spring"), "{out}{err}");
    let (code, migrated, err) = run(&["migrate", &spring]);
    assert_eq!(code, Some(0), "{err}");
    for line in
        ["burst-capacity: 3", "replenish-rate: 2", "refill: aligned", "bucket: bucket4j", "remaining-header: X-Left"]
    {
        assert!(migrated.contains(line), "{line}: {migrated}");
    }
    fs::write(&own, migrated).unwrap();
    let explained = [&spring, &own].map(|file| run(&["explain", file, "GET", "/a/1", "-Hx-key: k", "--json"]));
    assert_eq!(explained[0].0, Some(0), "{explained:?}");
    assert_eq!(explained[0].1, explained[1].1);
}

#[test]
fn arguments_that_spring_refuses_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml").display().to_string();
    for (args, expected) in [
        ("refill-style: SLOWLY", "unknown refill style `SLOWLY`"),
        ("refill-style: INTERVALLY_ALIGNED", "`bucket4j-rate-limiter.time-of-first-refill` is missing"),
        ("refil-tokens: 1", "unknown argument `bucket4j-rate-limiter.refil-tokens`"),
        ("time-of-first-refill: 2027-01-01T00:00:00Z", "has no effect without INTERVALLY_ALIGNED"),
    ] {
        fs::write(&path, file("", &format!("                  bucket4j-rate-limiter.{args}\n"))).unwrap();
        let (_, out, err) = run(&["check", "--offline", &path]);
        assert!(format!("{out}{err}").contains(expected), "{args}: {out}{err}");
    }
    let without = file("", "").replace("                  bucket4j-rate-limiter.capacity: 3\n", "");
    fs::write(&path, without).unwrap();
    let (code, out, err) = run(&["check", "--offline", &path]);
    assert!(
        code == Some(1) && format!("{out}{err}").contains("`bucket4j-rate-limiter.capacity` is missing"),
        "{out}{err}"
    );
}
