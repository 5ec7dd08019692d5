//! The pages in Chromium, driven by Playwright. `tests/run` installs both, or leaves these tests out and says so.
//!
//! A scenario is a script of this folder. It gets the addresses of a gateway, and ends with an error if the page fails.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::ROUTES;
use crate::api_keys::hash;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, response};

/// Runs a scenario of this folder against a gateway.
fn run(scenario: &str, gateway: &Gateway, environment: &[(&str, &str)]) {
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let folder = repository();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder.join("target"), PathBuf::from);
    let modules = target.join("dashboard");
    assert!(modules.join("node_modules").is_dir(), "playwright-core is missing: tests/run installs it");
    let output = Command::new("node")
        .arg(folder.join("tests/it/dashboard").join(scenario))
        .env("GATEWAY", gateway.address.to_string())
        .env("ADMIN", format!("127.0.0.1:{}", gateway.admin.port()))
        .env("CONFIG", gateway.config())
        .env("DASHBOARD_MODULES", modules)
        .env("CHROMIUM", chromium())
        .envs(environment.iter().copied())
        .output()
        .expect("node is missing: tests/run installs it");
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{printed}");
}

/// Returns the path of Chromium.
fn chromium() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser"];
    let mut found = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    found.find(|file| file.is_file()).expect("chromium is missing: tests/run installs it")
}

/// Root of the repository.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_hammered_key_appears_at_once_and_a_grant_lets_it_pass() {
    run("limited.mjs", &Gateway::start(ROUTES), &[]);
}

#[test]
fn each_page_works_with_the_keyboard_alone() {
    run("keyboard.mjs", &Gateway::start(ROUTES), &[]);
}

#[test]
fn a_broken_file_is_not_reloaded_and_its_problems_are_shown() {
    run("config.mjs", &Gateway::start(ROUTES), &[]);
}

#[test]
fn a_request_is_explained_with_the_state_of_its_keys() {
    let writes = "            - {name: writes, algorithm: fixed-window, limit: 5, window: 1h, when: [Method=POST]}";
    run("explain.mjs", &Gateway::start(&format!("{ROUTES}{writes}")), &[]);
}

#[test]
fn a_key_gets_a_temporary_override() {
    run("override.mjs", &Gateway::start(ROUTES), &[]);
}

#[test]
fn the_api_keys_of_an_id_are_disabled_and_enabled() {
    let redis = Redis::start();
    let (key, entry) = ("alice-key-VfIy", r#"{"id": "alice", "plan": "gold", "expires": "2099-01-01T00:00:00Z"}"#);
    redis.query::<i64>(&["HSET", "keys", &hash(key), entry]).unwrap();
    let limiter = |resolver: &str| {
        format!("{{name: RequestRateLimiter, args: {{replenish-rate: 100, key-resolver: '{resolver}'}}}}")
    };
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}', timeout: 5s}}\napi-keys: {{redis-hash: keys, from: 'header:x-key', cache: 1h}}\nroutes:\n  \
         - {{id: orders, uri: 'echo:', predicates: [Path=/orders], filters: [ApiKey, {}]}}\n  \
         - {{id: open, uri: 'echo:', predicates: [Path=/open], filters: [{}]}}\n",
        redis.url(),
        limiter("api-key"),
        limiter("header:x-id")
    ));
    run("keys.mjs", &gateway, &[("API_KEY", key)]);
}

#[test]
fn the_token_is_asked_for_and_stays_in_the_tab() {
    let tokens = "management: {server: {address: 0.0.0.0}, tokens: [\
                  {name: dashboards, role: read, token: read-token-of-16-bytes}, \
                  {name: operators, role: write, token: write-token-of-16-bytes}]}";
    run("token.mjs", &Gateway::start(&format!("{tokens}\n{ROUTES}")), &[]);
}

/// Pages under load. With `TOLLGATE_REGENERATE`, the pictures of the documentation are taken: `tests/regenerate pictures`.
#[test]
fn each_page_is_accessible_in_light_and_dark_and_fits_a_phone() {
    let redis = Redis::start();
    let upstream = Upstream::start(|request| {
        // Uneven, so that the percentiles differ.
        std::thread::sleep(Duration::from_millis(1 + request.target().len() as u64));
        response(200, &[], b"ok")
    });
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 2}}\nredis: {{url: '{}', timeout: 5s}}\n\
         upstreams: {{shop: {{endpoints: ['{}', 'http://127.0.0.1:1'], health: {{path: /health, interval: 1s}}}}}}\n{SHOP}",
        redis.url(),
        upstream.uri()
    ));
    eventually("Redis is connected", || gateway.metric("tollgate_redis_connections", &[]) > 0.0);
    let images = repository().join("docs/images");
    match std::env::var_os("TOLLGATE_REGENERATE") {
        None => run("pages.mjs", &gateway, &[]),
        Some(_) => {
            std::fs::create_dir_all(&images).unwrap();
            let images = images.to_str().unwrap();
            run("pages.mjs", &gateway, &[("DASHBOARD_IMAGES", images), ("DASHBOARD_SECONDS", "40")]);
        }
    }
}

const SHOP: &str = "
routes:
  - id: orders
    uri: 'lb://shop'
    predicates: [Path=/orders/**]
    filters:
      - {name: CircuitBreaker, args: {name: shop}}
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          limits:
            - {name: per-second, algorithm: token-bucket, replenish-rate: 4, burst-capacity: 4}
            - {name: daily, algorithm: fixed-window, limit: 50000, window: 24h}
  - id: search
    uri: 'lb://shop'
    predicates: [Path=/search]
    filters: [{name: RequestRateLimiter, args: {key-resolver: 'header:x-key', replenish-rate: 2, burst-capacity: 2, mode: observe}}]
  - id: reports
    uri: 'echo:'
    predicates: [Path=/reports]
    filters: [{name: RequestRateLimiter, args: {key-resolver: 'header:x-key', algorithm: gcra, replenish-rate: 1, burst-capacity: 1}}]
  - {id: static, uri: 'echo:', predicates: [Path=/static/**]}
";
