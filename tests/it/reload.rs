//! SIGHUP: a new configuration, without lost requests or refunded tokens.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::support::eventually;
use crate::support::gateway::{Gateway, run};
use crate::support::load::{Load, statuses};
use crate::support::redis::Redis;
use crate::support::upstream::Upstream;

fn route(id: &str, uri: &str) -> String {
    format!("  - {{id: {id}, uri: '{uri}', predicates: [Path=/{id}]}}\n")
}

fn limited(burst: u32) -> String {
    format!(
        "routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: \
         {{replenish-rate: 1, burst-capacity: {burst}, requested-tokens: 60, key-resolver: 'header:x-key'}}}}]}}]\n"
    )
}

fn ask(gateway: &Gateway) -> u16 {
    gateway.connect().request("GET", "/a", &[("x-key", "k")], b"").status
}

#[test]
fn reloads_under_load_change_routes_and_fail_no_request() {
    let (old, new) = (Upstream::ok("old"), Upstream::ok("new"));
    let yaml = |to: &Upstream, more: &str| format!("routes:\n{}{more}", route("a", &to.uri()));
    let gateway = Gateway::start(&yaml(&old, ""));
    assert_eq!(gateway.get("/b").status, 404);
    let load = Load::start(&[gateway.address], 16, &["/a"]);
    for round in 0..10 {
        load.more(100);
        gateway.reload(&yaml(if round % 2 == 0 { &new } else { &old }, ""));
    }
    gateway.reload(&yaml(&new, &route("b", &old.uri())));
    assert_eq!(gateway.get("/b").status, 200);
    load.more(200);
    let exchanges = load.stop();
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
    assert!(exchanges.iter().all(|exchange| exchange.header("connection") != Some("close")), "no request is refused");
    assert_eq!(exchanges.last().unwrap().answer.as_ref().unwrap().text(), "new");
    assert_eq!(gateway.metric("tollgate_reloads_total", &[]), 11.0);
    assert_eq!(gateway.admin("/actuator/gateway/routes/b").status, 200);
}

#[test]
fn a_client_that_sees_a_reload_sees_its_routes_on_every_worker() {
    let yaml = |id: &str| format!("server: {{workers: 4}}\nroutes:\n{}", route(id, "echo:"));
    let gateway = Gateway::start(&yaml("a"));
    let mut clients: Vec<_> = (0..16).map(|_| gateway.connect()).collect();
    for round in 0..20 {
        let (new, old) = if round % 2 == 0 { ("b", "a") } else { ("a", "b") };
        if round < 10 {
            gateway.reload(&yaml(new));
        } else {
            let text = std::fs::read_to_string(gateway.config()).unwrap();
            let text = text.replace(&format!("/{old}]"), &format!("/{new}]"));
            std::fs::write(gateway.config(), text).unwrap();
            assert_eq!(gateway.connect_admin().request("POST", "/api/reload", &[], b"").status, 200);
        }
        for client in &mut clients {
            let statuses = [new, old].map(|path| client.request("GET", &format!("/{path}"), &[], b"").status);
            assert_eq!(statuses, [200, 404], "in round {round}");
        }
    }
}

#[test]
fn an_invalid_file_is_refused_with_its_location_and_changes_nothing() {
    let gateway = Gateway::start(&format!("routes:\n{}", route("a", "echo:")));
    gateway.reload(&format!("routes:\n{}{}", route("b", "echo:"), route("c", "nowhere")));
    gateway.logged("configuration not reloaded, the running one stays in use");
    let line = gateway.logged("`nowhere` has no scheme");
    assert!(line.contains("tollgate.yaml:"), "{line}");
    assert_eq!((gateway.get("/a").status, gateway.get("/b").status), (200, 404));
    std::fs::remove_file(gateway.config()).unwrap();
    gateway.signal("HUP");
    gateway.logged("cannot read");
    assert_eq!(gateway.get("/a").status, 200);
    assert_eq!(gateway.metric("tollgate_failed_reloads_total", &[]), 2.0);
    gateway.reload(&format!("routes:\n{}", route("b", "echo:")));
    assert_eq!([gateway.get("/b").status, gateway.get("/a").status], [200, 404], "a mended file is taken");
}

#[test]
fn a_reload_refunds_no_tokens() {
    let gateway = Gateway::start(&limited(120));
    assert_eq!([ask(&gateway), ask(&gateway), ask(&gateway)], [200, 200, 429]);
    gateway.reload(&(limited(120) + "via: other\n"));
    assert_eq!(ask(&gateway), 429);
}

#[test]
fn a_raised_limit_admits_the_difference_and_a_lowered_one_nothing() {
    let gateway = Gateway::start(&limited(600));
    assert_eq!((0..11).map(|_| ask(&gateway)).filter(|status| *status == 200).count(), 10);
    gateway.reload(&limited(1200));
    let burst = |gateway: &Gateway| {
        let answer = gateway.connect().request("GET", "/a", &[("x-key", "other")], b"");
        answer.header("x-ratelimit-burst-capacity").unwrap().to_owned()
    };
    assert_eq!(burst(&gateway), "1200");
    assert_eq!((0..15).map(|_| ask(&gateway)).filter(|status| *status == 200).count(), 10, "exactly ten more");
    gateway.reload(&limited(60));
    assert_eq!(burst(&gateway), "60");
    assert_eq!(ask(&gateway), 429);
}

#[test]
fn a_changed_limit_in_redis_refunds_no_tokens() {
    let redis = Redis::start();
    let yaml = |burst: u32| format!("redis: {{url: '{}', timeout: 5s}}\n{}", redis.url(), limited(burst));
    let gateway = Gateway::start(&yaml(600));
    assert_eq!((0..11).map(|_| ask(&gateway)).filter(|status| *status == 200).count(), 10);
    gateway.reload(&yaml(1200));
    assert!((0..15).map(|_| ask(&gateway)).filter(|status| *status == 200).count() <= 10);
}

#[test]
fn a_reload_switches_between_memory_and_redis_immediately() {
    let redis = Redis::start();
    let with_redis = format!("redis: {{url: '{}', timeout: 5s}}\n{}", redis.url(), limited(600));
    let gateway = Gateway::start(&limited(600));
    let load = Load::start(&[gateway.address], 4, &["/a"]);
    for _ in 0..3 {
        gateway.reload(&with_redis);
        eventually("redis is called", || redis.cli(&["DBSIZE"]) == "2");
        gateway.reload(&limited(600));
        let asked = || gateway.metric("tollgate_redis_connections", &[]);
        eventually("redis is left alone", || asked() == 0.0);
        redis.cli(&["FLUSHALL"]);
    }
    load.more(100);
    let exchanges = load.stop();
    assert!(exchanges.iter().all(|exchange| matches!(exchange.status(), 200 | 429)), "{:?}", statuses(&exchanges));
    assert!(exchanges.iter().all(|exchange| exchange.header("x-ratelimit-degraded").is_none()), "no fallback decision");
}

#[test]
fn new_redis_settings_apply_without_fallback_decisions() {
    let redis = Redis::start();
    let yaml = |seconds: u32| format!("redis: {{url: '{}', timeout: {seconds}s}}\n{}", redis.url(), limited(600));
    let gateway = Gateway::start(&yaml(5));
    let load = Load::start(&[gateway.address], 8, &["/a"]);
    for seconds in 6..11 {
        load.more(100);
        gateway.reload(&yaml(seconds));
    }
    load.more(300);
    let exchanges = load.stop();
    assert!(exchanges.iter().all(|exchange| matches!(exchange.status(), 200 | 429)), "{:?}", statuses(&exchanges));
    let guessed = exchanges.iter().filter(|exchange| exchange.header("x-ratelimit-degraded").is_some()).count();
    assert_eq!(guessed, 0, "of {}", exchanges.len());
}

#[test]
fn a_setting_that_needs_a_restart_is_logged() {
    let yaml =
        |workers: u32| format!("server: {{address: 127.0.0.1, workers: {workers}}}\nroutes:\n{}", route("a", "echo:"));
    let gateway = Gateway::start(&yaml(1));
    gateway.reload(&yaml(2));
    let line = gateway.logged("takes effect after a restart");
    assert!(line.contains("server.workers"), "{line}");
    assert_eq!(gateway.get("/a").status, 200);
}

#[test]
fn a_file_that_lost_its_routes_is_refused_unless_it_says_that_there_are_none() {
    let gateway = Gateway::start(&format!("routes:\n{}", route("a", "echo:")));
    for (round, text) in
        ["", "\n", "via: other\n", "routes:\n", "spring: {cloud: {gateway: {routes: }}}\n"].iter().enumerate()
    {
        std::fs::write(gateway.config(), text).unwrap();
        let refused = gateway.connect_admin().request("POST", "/api/reload", &[], b"");
        assert_eq!(refused.status, 422, "{text:?}: {}", refused.text());
        assert!(refused.text().contains("write `routes: []`"), "{}", refused.text());
        assert_eq!(
            (gateway.get("/a").status, gateway.metric("tollgate_failed_reloads_total", &[])),
            (200, round as f64 + 1.0)
        );
    }
    gateway.signal("HUP");
    gateway.logged("tollgate.yaml: no routes: every request would get 404");
    // Nor do disabled routes, and a locator without a registry that is in use, with or without an empty list beside it.
    let locator = "spring.cloud.gateway.discovery.locator.enabled: true\n";
    for text in [
        "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], enabled: false}]\n",
        locator,
        &format!("{locator}eureka.client.enabled: false\n"),
        &format!("{locator}spring.cloud.gateway.routes: []\n"),
        &format!("{locator}spring.cloud.discovery.enabled: false\nspring.cloud.consul.host: 127.0.0.1\n"),
    ] {
        std::fs::write(gateway.config(), text).unwrap();
        let refused = gateway.connect_admin().request("POST", "/api/reload", &[], b"");
        assert_eq!((refused.status, gateway.get("/a").status), (422, 200), "{text:?}: {}", refused.text());
        assert!(refused.text().contains("write `routes: []`"), "{}", refused.text());
    }
    for text in ["routes: []\n", "spring: {cloud: {gateway: {routes: []}}}\n"] {
        std::fs::write(gateway.config(), format!("routes:\n{}", route("a", "echo:"))).unwrap();
        assert_eq!(gateway.connect_admin().request("POST", "/api/reload", &[], b"").status, 200);
        assert_eq!(gateway.get("/a").status, 200);
        std::fs::write(gateway.config(), text).unwrap();
        assert_eq!(gateway.connect_admin().request("POST", "/api/reload", &[], b"").status, 200, "{text:?}");
        assert_eq!(gateway.get("/a").status, 404);
    }
}

#[test]
fn a_reload_from_a_pipe_ends_and_the_next_one_is_applied() {
    let text = |id: &str| format!("routes:\n{}", route(id, "echo:"));
    let gateway = Gateway::start(&text("a"));
    std::fs::remove_file(gateway.config()).unwrap();
    assert!(Command::new("mkfifo").arg(gateway.config()).status().unwrap().success());
    // A pipe without a writer, and one whose writer does not close it.
    gateway.signal("HUP");
    gateway.logged("it is an empty pipe to which no process writes");
    let writer = OpenOptions::new().read(true).write(true).open(gateway.config()).unwrap();
    let (code, _, err) = run(&["reload", &gateway.admin.to_string()]);
    assert!(code == Some(1) && err.contains("did not end within 5 seconds") && err.contains("help: start"), "{err}");
    drop(writer);
    std::fs::remove_file(gateway.config()).unwrap();
    gateway.reload(&text("b"));
    assert_eq!((gateway.get("/a").status, gateway.get("/b").status), (404, 200));
}

#[test]
fn a_reload_in_progress_is_shown_and_the_next_one_follows_it() {
    let text = |id: &str| format!("server: {{address: 127.0.0.1, port: 0}}\nroutes:\n{}", route(id, "echo:"));
    let gateway = Gateway::start(&text("a"));
    let since = || gateway.admin("/api/config").json()["reload-since"].clone();
    assert_eq!(since(), Value::Null);
    std::fs::remove_file(gateway.config()).unwrap();
    assert!(Command::new("mkfifo").arg(gateway.config()).status().unwrap().success());
    let mut writer = OpenOptions::new().read(true).write(true).open(gateway.config()).unwrap();
    gateway.signal("HUP");
    eventually("the reload reads the pipe", || since() != Value::Null);
    let (code, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(code == Some(0) && out.contains("\nreload   in progress since 20"), "{out}");
    gateway.signal("HUP");
    gateway.logged("a change of the configuration is in progress; the reload follows it");
    // The first reload reads the pipe, the second one the file that took its place.
    let path = gateway.config().with_extension("new");
    std::fs::write(&path, text("c")).unwrap();
    std::fs::rename(&path, gateway.config()).unwrap();
    writer.write_all(text("b").as_bytes()).unwrap();
    drop(writer);
    eventually("the second file is used", || gateway.get("/c").status == 200);
    eventually("no reload is in progress", || since() == Value::Null);
    assert_eq!(gateway.metric("tollgate_reloads_total", &[]), 2.0);
    assert_eq!(gateway.metric("tollgate_failed_reloads_total", &[]), 0.0);
}

#[test]
fn a_command_says_how_long_it_waited_for_a_response() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (code, _, err) = run(&["health", &address]);
    assert_eq!((code, err), (Some(1), format!("tollgate: no response from {address} within 2s\n")));
}
