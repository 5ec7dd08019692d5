//! Endpoints that fail requests.

use std::process::Command;

use super::*;
use crate::support::free_address;
use crate::support::gateway::TOLLGATE;

#[test]
fn an_endpoint_without_health_checks_shows_the_outcomes_of_its_latest_requests() {
    let place = free_address();
    let gateway = Gateway::start(&yaml(&[("orders", format!("endpoints: ['http://{place}']"))], ""));
    let shown = || gateway.admin("/api/upstreams").json()[0]["endpoints"][0].clone();
    let endpoint = shown();
    assert_eq!((&endpoint["state"], &endpoint["consecutive-failures"]), (&"unknown".into(), &0.into()), "{endpoint}");
    assert!(endpoint.get("last-failure").is_none(), "{endpoint}");
    for _ in 0..2 {
        assert_eq!(gateway.get("/orders/x").status, 502);
    }
    let endpoint = shown();
    assert_eq!((&endpoint["state"], &endpoint["consecutive-failures"]), (&"failing".into(), &2.into()), "{endpoint}");
    assert!(endpoint["last-failure"]["error"].as_str().unwrap().contains("refused"), "{endpoint}");
    assert!(endpoint["last-failure"]["at"].as_str().unwrap().ends_with('Z'), "{endpoint}");
    let explained = gateway.admin("/api/explain?url=/orders/x").json();
    let live = &explained["route"]["live"]["endpoints"][0];
    assert_eq!((&live["state"], &live["last-failure"]), (&endpoint["state"], &endpoint["last-failure"]));
    let command = |arguments: &[&str]| {
        let output = Command::new(TOLLGATE).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let port = gateway.admin.to_string();
    for text in [command(&["status", &port]), command(&["explain", "GET", "/orders/x", "--live", &port])] {
        assert!(text.contains("failing") && text.contains("2 failed in a row, last at 2"), "{text}");
    }
    assert_eq!(gateway.metric("tollgate_upstream_endpoints{", &["state=\"up\""]), 1.0, "it gets requests");

    let _back = named_at(TcpListener::bind(place).unwrap(), "back");
    eventually("it responds", || gateway.get("/orders/x").status == 200);
    let recovered = shown();
    assert_eq!((&recovered["state"], &recovered["consecutive-failures"]), (&"up".into(), &0.into()), "{recovered}");
    assert!(recovered["last-failure"]["error"].is_string(), "the latest failure stays: {recovered}");
}

#[test]
fn an_endpoint_that_fails_its_health_checks_shows_the_reason_while_it_is_down() {
    let place = free_address();
    let section = format!("endpoints: ['http://{place}'], health: {{path: /, interval: 50ms, healthy: 1}}");
    let gateway = Gateway::start(&yaml(&[("orders", section)], ""));
    let shown = || gateway.admin("/api/upstreams").json()[0]["endpoints"][0].clone();
    eventually("it is down", || shown()["state"] == "down");
    assert!(shown()["check-error"].as_str().unwrap().contains("refused"), "{}", shown());
    let status = Command::new(TOLLGATE).args(["status", &gateway.admin.to_string()]).output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains(&format!("http://{place} down, health check: cannot connect")), "{status}");
    let explain = ["explain", "GET", "/orders/x", "--live", &gateway.admin.to_string()];
    let explained = Command::new(TOLLGATE).args(explain).output().unwrap().stdout;
    let explained = String::from_utf8(explained).unwrap();
    assert!(explained.contains("down, 0 in flight, health check: cannot connect"), "{explained}");
    let drain = |upstream: &str, endpoint: &str| {
        let path = format!("/api/upstreams/{upstream}/drains/{endpoint}");
        gateway.connect_admin().request("DELETE", &path, &[], b"").text()
    };
    assert!(drain("order", "x").contains("unknown upstream `order`; upstreams: `orders`"));
    assert!(drain("orders", "x").contains(&format!("has no endpoint `x`; its endpoints: `http://{place}`")));

    let _back = named_at(TcpListener::bind(place).unwrap(), "back");
    eventually("it is up", || shown()["state"] == "up");
    assert!(shown().get("check-error").is_none(), "{}", shown());
}

#[test]
fn a_dead_endpoint_fails_no_request_and_is_used_again_after_recovery() {
    let alive = named("alive");
    let place = free_address();
    let gateway = Gateway::start(&yaml(
        &[(
            "orders",
            format!(
                "endpoints: ['{}', 'http://{place}'], balance: round-robin, \
                 ejection: {{consecutive-failures: 3, base-time: 500ms}}",
                alive.uri()
            ),
        )],
        "",
    ));
    let mut client = gateway.connect();
    for n in 0..20 {
        // No byte was written, so even a POST is sent to another endpoint.
        let method = if n % 2 == 0 { "GET" } else { "POST" };
        let answer = client.request(method, "/orders/x", &[], if n % 2 == 0 { b"" } else { b"body" });
        assert_eq!((answer.status, answer.text().as_str()), (200, "alive"), "{n}");
    }
    let line = gateway.logged("endpoint ejected: too many consecutive failures");
    assert!(line.contains(&format!("http://{place}")), "{line}");
    assert!(gateway.metric("tollgate_upstream_ejections_total", &["\"orders\""]) >= 1.0);
    let _back = named_at(TcpListener::bind(place).unwrap(), "back");
    gateway.logged("endpoint recovering");
    eventually("it has its turns again", || shares(&gateway, "/orders/x", 4, &[]).contains_key("back"));
}

#[test]
fn an_endpoint_that_fails_or_returns_503_is_ejected() {
    let breaking = Upstream::scripted(|stream, seen| {
        if let Some(request) = read_request(stream) {
            seen(request);
        }
    });
    let (alive, ailing) = (named("alive"), named("ailing"));
    let always = "ejection: {consecutive-failures: 3, base-time: 1h}";
    let gateway = Gateway::start(&yaml(
        &[
            ("breaking", format!("{}, balance: round-robin, {always}", endpoints(&[&breaking, &alive]))),
            (
                "ailing",
                format!(
                    "{}, balance: consistent-hash, hash-by: 'header:x-user', {always}",
                    endpoints(&[&ailing, &alive])
                ),
            ),
            ("alone", format!("{}, {always}", endpoints(&[&ailing]))),
            (
                "never",
                format!("{}, balance: round-robin, ejection: {{enabled: false}}", endpoints(&[&breaking, &alive])),
            ),
        ],
        "",
    ));
    assert_eq!(shares(&gateway, "/breaking/x", 20, &[]), [share("alive", 20)].into());
    assert_eq!(breaking.requests().len(), 3, "three strikes");
    assert_eq!(shares(&gateway, "/never/x", 20, &[]), [share("alive", 20)].into());
    assert_eq!(breaking.requests().len(), 3 + 10, "each turn of its");
    let users = ["ada", "bob", "cy", "dee", "eve", "fay", "gil", "hal"];
    let home = |user: &str| gateway.connect().request("GET", "/ailing/x", &[("x-user", user)], b"").text();
    let homes: Vec<String> = users.iter().map(|user| home(user)).collect();
    let ails = users[homes.iter().position(|home| home == "ailing").expect("half of them")];
    for _ in 0..3 {
        let answer = gateway.connect().request("GET", "/ailing/x", &[("x-user", ails), ("x-status", "503")], b"");
        assert_eq!(answer.status, 503, "a response is forwarded");
    }
    assert!(users.iter().all(|user| home(user) == "alive"), "with a sticky policy: no client stayed, or all did");
    for status in ["503", "503", "503", "503", "200"] {
        let answer = gateway.connect().request("GET", "/alone/x", &[("x-status", status)], b"");
        assert_eq!(answer.status.to_string(), status, "the only one is never ejected");
    }
    assert_eq!(gateway.metric("tollgate_upstream_ejections_total", &["\"alone\""]), 0.0);
}

#[test]
fn the_uri_of_a_route_that_is_down_is_counted_shown_and_logged_with_its_route() {
    let place = free_address();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, port: 0, workers: 1}}\n\
         routes: [{{id: shop, uri: 'http://{place}', predicates: [Path=/shop]}}]\n"
    ));
    let shown = || gateway.admin("/api/upstreams").json();
    assert_eq!(shown(), serde_json::json!([]));
    let failed = || gateway.metric("tollgate_upstream_failed_attempts_total", &[&format!("upstream=\"{place}\"")]);
    assert_eq!(failed(), 0.0);
    for _ in 0..2 {
        assert_eq!(gateway.get("/shop").status, 502);
    }
    assert_eq!(failed(), 2.0);
    let upstream = shown()[0].clone();
    let endpoint = &upstream["endpoints"][0];
    assert_eq!(
        (&upstream["name"], &endpoint["endpoint"]),
        (&place.to_string().into(), &format!("http://{place}").into())
    );
    assert_eq!((&endpoint["state"], &endpoint["consecutive-failures"]), (&"failing".into(), &2.into()), "{endpoint}");
    assert!(endpoint["last-failure"]["error"].as_str().unwrap().contains("refused"), "{endpoint}");
    let status = Command::new(TOLLGATE).args(["status", &gateway.admin.to_string()]).output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains(&format!("upstream {place}")) && status.contains("failing, 2 failed in a row"), "{status}");
    let line = gateway.logged("request not forwarded");
    assert!(line.contains("route=\"shop\""), "{line}");

    let _back = named_at(TcpListener::bind(place).unwrap(), "back");
    eventually("it responds", || gateway.get("/shop").status == 200);
    assert_eq!(shown(), serde_json::json!([]), "it responds again");
}
