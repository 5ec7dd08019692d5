//! API keys on the pages of the admin port, in logs, in cached responses and in reports.

use std::time::{Duration, SystemTime};

use super::{ALICE, BOB, GUESSES, Keys, OFF, OPEN, call, hash, status, yaml};
use crate::support::eventually;
use crate::support::gateway::{Gateway, run};
use crate::support::upstream::{Upstream, response};

#[test]
fn no_log_and_no_page_shows_a_key() {
    let keys = Keys::new();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let limiter = "{name: RequestRateLimiter, args: {key-resolver: api-key, replenish-rate: 1, burst-capacity: 1}}";
    for format in ["combined", "json"] {
        let gateway = Gateway::start(&format!(
            "log: {{level: debug}}\naccess-log: {{output: '{}', format: {format}}}\n{}",
            log.display(),
            yaml(
                &keys.path,
                ", from: ['header:X-Api-Key', bearer, 'query:api_key']",
                &format!("  - {{id: a, uri: 'echo:', predicates: [Path=/a], filters: [ApiKey, {limiter}]}}")
            )
        ));
        let authorization = format!("Bearer {ALICE}");
        let referer = format!("https://a.example/?api_key={ALICE}");
        for (path, fields) in [
            (format!("/a?x=1&api_key={ALICE}"), vec![("Referer", referer.as_str())]),
            (format!("/a?api%5Fkey={ALICE}"), vec![]),
            (format!("/other?api_key={ALICE}"), vec![]),
            (format!("/a?api_key={ALICE}"), vec![("X-Api-Key", BOB)]),
            (format!("/%zz?api_key={ALICE}"), vec![]),
            ("/a".to_owned(), vec![("Authorization", authorization.as_str())]),
            ("/a".to_owned(), vec![("X-Api-Key", ALICE)]),
        ] {
            let _ = call(&gateway, &path, &fields);
        }
        for page in ["/api/keys", "/api/config", "/api/routes", "/api/top?verdict=all", "/api/limits", "/metrics"] {
            let text = gateway.admin(page).text();
            assert!(!text.contains(ALICE) && !text.contains(BOB) && !text.contains(&hash(ALICE)), "{page}: {text}");
        }
        assert!(gateway.admin("/api/top?verdict=all").text().contains("alice"), "the id is no secret");
        let explained = gateway.admin(&format!("/api/explain?url=/a&header=X-Api-Key:%20{ALICE}")).text();
        assert!(!explained.contains(ALICE), "{explained}");
        let lines = || std::fs::read_to_string(&log).unwrap_or_default();
        eventually("the lines are written", || lines().lines().count() >= 7);
        assert!(lines().contains("api_key=***") && lines().contains("api%5Fkey=***"), "{}", lines());
        assert!(!lines().contains(ALICE) && !lines().contains(BOB), "{}", lines());
        assert!(!gateway.log().contains(ALICE) && !gateway.log().contains(BOB), "{}", gateway.log());
        std::fs::remove_file(&log).unwrap();
    }
}

#[test]
fn a_cached_response_is_for_valid_keys_only() {
    let keys = Keys::new();
    let upstream = Upstream::start(|request| {
        let id = request.header("x-api-key-id").unwrap_or_default();
        response(200, &[("Cache-Control", "max-age=60")], id.as_bytes())
    });
    let gateway = keys.gateway(
        GUESSES,
        &format!(
            "  - {{id: a, uri: '{}', predicates: [Path=/**], filters: [LocalResponseCache=1m, ApiKey]}}",
            upstream.uri()
        ),
    );
    let body = |key: &str| call(&gateway, "/", &[("X-Api-Key", key)]).text();
    assert_eq!([body(ALICE), body(ALICE), body(BOB)], ["alice", "alice", "bob"]);
    assert_eq!(upstream.requests().len(), 2, "one of each key");
    assert_eq!((status(&gateway, "guess"), status(&gateway, OFF), call(&gateway, "/", &[]).status), (401, 401, 401));
}

#[test]
fn mistakes_in_the_section_are_reported_with_their_remedy() {
    let keys = Keys::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let limiter = "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1}}";
    let plan = |resolver: &str, plan: &str| {
        format!(
            "ApiKey, {{name: RequestRateLimiter, args: {{key-resolver: api-key, replenish-rate: 1, plan-resolver: '{resolver}', \
             plans: {{{plan}: {{replenish-rate: 2}}}}}}}}"
        )
    };
    let path = keys.path.display();
    let route =
        |filters: &str| format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{filters}]}}]\n");
    for (text, code, expected) in [
        (format!("api-keys: {{file: '{path}', from: [cookie:a]}}\n{}", route("ApiKey")), 1, "no place of API keys"),
        (format!("api-keys: {{}}\n{}", route("ApiKey")), 1, "needs `file` or `redis-hash`"),
        (format!("api-keys: {{redis-hash: keys}}\n{}", route("ApiKey")), 1, "without `redis:`"),
        (format!("api-keys: {{file: '{path}', redis-hash: keys}}\n{}", route("ApiKey")), 1, "both given"),
        (format!("api-keys: {{file: /absent.yaml}}\n{}", route("ApiKey")), 1, "cannot read the API keys /absent.yaml"),
        (route("ApiKey"), 1, "needs a section `api-keys`"),
        (
            route("{name: RequestRateLimiter, args: {key-resolver: api-key, replenish-rate: 1}}"),
            1,
            "needs a section `api-keys`",
        ),
        (
            format!("api-keys: {{file: '{path}'}}\n{}", route(&format!("{limiter}, ApiKey"))),
            0,
            "is behind `RequestRateLimiter`",
        ),
        (format!("api-keys: {{file: '{path}'}}\n{}", route("ApiKey")), 0, "1 API key has expired"),
        (format!("api-keys: {{file: '{path}'}}\n{}", route("ApiKey")), 0, "the route `till`, which does not exist"),
        (format!("api-keys: {{file: '{path}'}}\n{}", route("ApiKey")), 0, "the plan `gold`, which no limiter"),
        (format!("api-keys: {{file: '{path}'}}\n{}", route(&plan("api-key", "gold"))), 0, "the plan `free`, which"),
        (format!("api-keys: {{file: '{path}'}}\n{}", route(&plan("header:plan", "free"))), 0, "the plan `gold`, which"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let (exit, out, err) = run(&["check", "--offline", file.to_str().unwrap()]);
        assert!(exit == Some(code) && (out.contains(expected) || err.contains(expected)), "{text}\n{out}{err}");
    }
}

#[test]
fn the_admin_port_lists_the_keys_of_a_file_and_changes_none() {
    let keys = Keys::new();
    let soon = humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(13 * 86_400));
    keys.write(&format!("{}\n- {{id: soon, sha256: {}, expires: {soon}}}", keys.all(), hash("soon")));
    let gateway = keys.gateway(GUESSES, OPEN);
    assert_eq!(status(&gateway, ALICE), 200);
    let listed = gateway.admin("/api/keys").json();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 7);
    let bob = gateway.admin("/api/keys?id=bob").json();
    assert_eq!((bob["keys"].as_array().unwrap().len(), &bob["keys"][0]["plan"]), (2, &"free".into()));
    assert_eq!(gateway.admin("/api/keys?id=alice").json()["keys"][0]["requests"], 1);
    let refused = gateway.connect_admin().request("POST", "/api/keys/alice/disable", &[], b"");
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(gateway.admin("/api/keys?after=x").status, 400);
    assert_eq!(gateway.metric("tollgate_api_keys_expiring", &[]), 1.0);
    assert_eq!(gateway.metric("tollgate_api_keys", &[]), 7.0 + 1.0);
}
