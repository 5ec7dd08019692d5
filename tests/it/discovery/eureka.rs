//! Eureka, by a stand-in.

use base64::Engine as _;
use tollgate_test_support::registry::EurekaServer;

use super::*;

fn settings(urls: &str, more: &str) -> String {
    format!("eureka: {{client: {{service-url: {{defaultZone: '{urls}'}}, registry-fetch-interval-seconds: 1{more}}}}}")
}

fn full_fetches(eureka: &EurekaServer) -> usize {
    eureka.requests().iter().filter(|request| request.path == "/eureka/apps/").count()
}

#[test]
fn endpoints_follow_eureka_by_changes_alone() {
    let (a, b) = (named("a"), named("b"));
    let eureka = EurekaServer::start();
    let login = base64::engine::general_purpose::STANDARD.encode("me:p@ss");
    eureka.require(&format!("Basic {login}"));
    eureka.register("orders", "a", a.address, Value::Null);
    let url = eureka.url().replace("http://", "http://me:p%40ss@");
    let gateway = gateway(&settings(&url, ""), &["orders", "ORDERS", "missing"]);
    assert_eq!(shares(&gateway, "/orders/x", 2), [("a".to_owned(), 2)].into(), "known before the first request");
    assert_eq!(gateway.get("/missing/x").status, 503);
    becomes(&gateway, "/ORDERS/x", &[("a", 1)]);
    eureka.register("orders", "b", b.address, json!({"metadata": {"zone": "eu"}}));
    becomes(&gateway, "/orders/x", &[("a", 2), ("b", 2)]);
    eureka.set_status("orders", "a", "OUT_OF_SERVICE");
    becomes(&gateway, "/orders/x", &[("b", 2)]);
    eureka.set_status("orders", "a", "UP");
    becomes(&gateway, "/orders/x", &[("a", 2), ("b", 2)]);
    eureka.cancel("orders", "b");
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    assert_eq!(full_fetches(&eureka), 1);
    assert!(!gateway.log().contains("p@ss") && !gateway.admin("/api/upstreams").text().contains("p@ss"));
    eureka.register("orders", "short", b.address, json!({"leaseInfo": {"durationInSecs": 1}}));
    becomes(&gateway, "/orders/x", &[("a", 2), ("b", 2)]);
    becomes(&gateway, "/orders/x", &[("a", 2)]);
}

#[test]
fn a_missed_change_is_found_by_the_hash() {
    let (a, b) = (named("a"), named("b"));
    let eureka = EurekaServer::start();
    eureka.register("orders", "a", a.address, Value::Null);
    let gateway = gateway(&settings(&eureka.url(), ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
    let fetches = full_fetches(&eureka);
    eureka.register("orders", "b", b.address, Value::Null);
    eureka.forget_changes();
    becomes(&gateway, "/orders/x", &[("a", 1), ("b", 1)]);
    assert!(full_fetches(&eureka) > fetches);
}

#[test]
fn another_server_takes_over_and_all_may_be_away() {
    let (a, b) = (named("a"), named("b"));
    let (first, second) = (EurekaServer::start(), EurekaServer::start());
    for eureka in [&first, &second] {
        eureka.register("orders", "a", a.address, Value::Null);
    }
    let gateway = gateway(&settings(&format!("{},{}", first.url(), second.url()), ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
    assert!(second.requests().is_empty(), "one server is enough");
    first.fault(Some(Fault::Away));
    second.register("orders", "b", b.address, Value::Null);
    becomes(&gateway, "/orders/x", &[("a", 1), ("b", 1)]);
    second.fault(Some(Fault::Away));
    let failed = || gateway.metric("tollgate_registry_requests_total{", &["outcome=\"failed\""]);
    let before = failed();
    eventually("both are asked", || failed() >= before + 2.0);
    becomes(&gateway, "/orders/x", &[("a", 1), ("b", 1)]);
    first.lose_data();
    first.register("orders", "b", b.address, Value::Null);
    first.fault(None);
    becomes(&gateway, "/orders/x", &[("b", 2)]);
}

#[test]
fn hostile_answers_harm_nothing() {
    let a = named("a");
    let eureka = EurekaServer::start();
    eureka.register("orders", "a", a.address, Value::Null);
    let gateway = gateway(&settings(&eureka.url(), ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
    let failed = || gateway.metric("tollgate_registry_requests_total{", &["outcome=\"failed\""]);
    survives(&gateway, "/orders/x", "a", failed, |fault| eureka.fault(fault));
    eureka.register("orders", "evil", a.address, json!({"hostName": "a\r\nHost: b"}));
    gateway.logged("instances ignored");
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    assert!(gateway.resident() < 200 << 20, "bounded");
}

#[test]
fn the_own_zone_is_preferred() {
    let (a, b) = (named("a"), named("b"));
    let eureka = EurekaServer::start();
    eureka.register("orders", "a", a.address, json!({"metadata": {"zone": "eu"}}));
    eureka.register("orders", "b", b.address, json!({"metadata": {"zone": "us"}}));
    let client =
        format!("client: {{service-url: {{defaultZone: '{}'}}, registry-fetch-interval-seconds: 1}}", eureka.url());
    let text = format!(
        "eureka: {{{client}, instance: {{metadata-map: {{zone: us}}}}}}\nspring.cloud.loadbalancer.configurations: zone-preference"
    );
    let gateway = gateway(&text, &["orders"]);
    becomes(&gateway, "/orders/x", &[("b", 3)]);
    eureka.cancel("orders", "b");
    becomes(&gateway, "/orders/x", &[("a", 3)]);
}

#[test]
fn the_first_registry_that_knows_a_name_decides() {
    let (a, b) = (named("a"), named("b"));
    let (eureka, consul) = (EurekaServer::start(), tollgate_test_support::registry::ConsulServer::start());
    eureka.register("orders", "a", a.address, Value::Null);
    consul.register("orders", "b", b.address, Value::Null);
    consul.register("users", "u", b.address, Value::Null);
    let text = format!(
        "{}\nspring.cloud.consul: {{host: 127.0.0.1, port: {}}}",
        settings(&eureka.url(), ""),
        consul.address.port()
    );
    let gateway = gateway(&text, &["orders", "users"]);
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    becomes(&gateway, "/users/x", &[("b", 2)]);
    eureka.cancel("orders", "a");
    becomes(&gateway, "/orders/x", &[("b", 2)]);
}

#[test]
fn a_thousand_services_change_a_thousand_times_a_second() {
    const SERVICES: usize = 1000;
    let (a, b) = (named("a"), named("b"));
    let eureka = EurekaServer::start();
    let names: Vec<String> = (0..SERVICES).map(|number| format!("s{number}")).collect();
    let register = |name: &str, server: &Upstream| eureka.register(name, name, server.address, Value::Null);
    names.iter().for_each(|name| register(name, &a));
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let gateway = gateway(&settings(&eureka.url(), ""), &all);
    let up = || gateway.metric("tollgate_upstream_endpoints{", &["state=\"up\""]);
    eventually("all are known", || up() == SERVICES as f64);
    let began = Instant::now();
    for round in 0..5 {
        let server = if round % 2 == 0 { &b } else { &a };
        for (number, name) in names.iter().enumerate() {
            register(name, server);
            if number % 100 == 0 {
                let due = Duration::from_millis((round * SERVICES + number) as u64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
        }
    }
    println!("{} changes in {:?}", 5 * SERVICES, began.elapsed());
    for name in names.iter().step_by(20) {
        becomes(&gateway, &format!("/{name}/x"), &[("b", 2)]);
    }
    println!("all arrived after {:?}", began.elapsed());
    assert_eq!(up(), SERVICES as f64);
    assert!(gateway.resident() < 200 << 20, "{} bytes", gateway.resident());
}
