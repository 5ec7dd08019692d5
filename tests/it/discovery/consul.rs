//! Consul, by a stand-in.

use tollgate_test_support::registry::ConsulServer;

use super::*;
use crate::support::load::{Load, statuses};

fn settings(consul: &ConsulServer, more: &str) -> String {
    format!("spring.cloud.consul: {{host: 127.0.0.1, port: {}, discovery: {{{more}}}}}", consul.address.port())
}

#[test]
fn endpoints_follow_consul() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let consul = ConsulServer::start();
    consul.require("s3cret");
    consul.register("orders", "a", a.address, json!({"Tags": ["v2"], "Meta": {"zone": "eu"}}));
    consul.register("orders", "old", c.address, json!({"Tags": ["v1"]}));
    let text = settings(&consul, "acl-token: s3cret, default-query-tag: v2, datacenter: dc7, instance-zone: x");
    let gateway = gateway(&text, &["orders", "missing"]);
    assert_eq!(shares(&gateway, "/orders/x", 4), [("a".to_owned(), 4)].into(), "known before the first request");
    assert_eq!(gateway.get("/missing/x").status, 503, "no reason not to start");
    let request = consul.requests().into_iter().find(|request| request.path.ends_with("/orders")).unwrap();
    assert_eq!((request.path.as_str(), request.parameter("dc")), ("/v1/health/service/orders", Some("dc7")));
    assert_eq!(request.parameter("passing"), Some("true"));
    consul.register("orders", "b", b.address, json!({"Tags": ["v2"], "Weights": {"Passing": 3, "Warning": 1}}));
    becomes(&gateway, "/orders/x", &[("a", 2), ("b", 6)]);
    consul.check("b", "critical");
    becomes(&gateway, "/orders/x", &[("a", 4)]);
    let upstream = described(&gateway, "orders");
    assert_eq!((&upstream["registry"]["kind"], &upstream["registry"]["error"]), (&json!("consul"), &Value::Null));
    assert_eq!(upstream["endpoints"][0]["zone"], "eu");
    assert_eq!(gateway.metric("tollgate_registry_up{", &["registry=\"consul\""]), 1.0);
    consul.deregister("a");
    becomes(&gateway, "/orders/x", &[("503", 2)]);
    consul.register("missing", "m", c.address, json!({"Tags": ["v2"]}));
    becomes(&gateway, "/missing/x", &[("c", 2)]);
}

#[test]
fn a_registry_that_is_away_keeps_the_last_list_and_may_come_back_with_other_data() {
    let (a, b) = (named("a"), named("b"));
    let consul = ConsulServer::start();
    for round in 0..20 {
        consul.register("other", &format!("o{round}"), a.address, Value::Null);
    }
    consul.register("orders", "a", a.address, Value::Null);
    let gateway = gateway(&settings(&consul, ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    let failed = || gateway.metric("tollgate_registry_requests_total{", &["outcome=\"failed\""]);
    consul.fault(Some(Fault::Away));
    eventually("the outage is noticed", || failed() >= 2.0);
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    assert_eq!(gateway.metric("tollgate_registry_up{", &[]), 0.0);
    assert!(described(&gateway, "orders")["registry"]["error"].as_str().unwrap().contains("no usable response"));
    gateway.logged("registry request failed; known endpoints are kept");
    let age = || gateway.metric("tollgate_upstream_list_age_seconds{", &["upstream=\"orders\""]);
    eventually("the list ages", || age() > 1.0);
    // The index is far below that of before.
    consul.lose_data();
    consul.register("orders", "b", b.address, Value::Null);
    becomes(&gateway, "/orders/x", &[("b", 2)]);
    gateway.logged("registry responds again");
    assert!(age() < 30.0);
    // The index of an equal history would look like no change.
    consul.lose_data();
    consul.register("other", "o", a.address, Value::Null);
    consul.register("orders", "a", a.address, Value::Null);
    becomes(&gateway, "/orders/x", &[("a", 2)]);
}

#[test]
fn hostile_answers_harm_nothing() {
    let a = named("a");
    let consul = ConsulServer::start();
    consul.register("orders", "a", a.address, Value::Null);
    let gateway = gateway(&settings(&consul, "wait: 200ms"), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
    let failed = || gateway.metric("tollgate_registry_requests_total{", &["outcome=\"failed\""]);
    survives(&gateway, "/orders/x", "a", failed, |fault| consul.fault(fault));
    let meta = json!({"Meta": {"x\r\nSet-Cookie: y": "z", "zone": "a\r\nb"}});
    consul.register("orders", "a", a.address, meta);
    consul.register("orders", "evil", a.address, json!({"Address": "a\r\nHost: b"}));
    consul.register("orders", "port", a.address, json!({"Port": 70_000}));
    gateway.logged("instances ignored");
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    let asked = consul.requests().len();
    eventually("it is asked again", || consul.requests().len() > asked + 5);
    let log = gateway.log();
    let ignored: Vec<&str> = log.lines().filter(|line| line.contains("instances ignored")).collect();
    assert!((1..=2).contains(&ignored.len()), "one line for each change: {log}");
    let last = ignored.last().unwrap();
    assert!(last.contains("orders") && last.contains("evil") && last.contains("no valid host"), "{last}");
    assert!(!gateway.log().contains("Set-Cookie"), "{}", gateway.log());
    assert!(gateway.resident() < 200 << 20, "bounded");
}

#[test]
fn a_removed_endpoint_gets_no_request_and_loses_none() {
    let servers: Vec<_> = ["a", "b", "c", "d"].into_iter().map(named).collect();
    let consul = ConsulServer::start();
    let register = |at: usize| consul.register("orders", &at.to_string(), servers[at].address, Value::Null);
    register(0);
    register(1);
    let gateway = gateway(&settings(&consul, ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1), ("b", 1)]);
    let load = Load::start(&[gateway.address], 4, &["/orders/x"]);
    for round in 2..18 {
        register(round % 4);
        consul.deregister(&((round + 2) % 4).to_string());
        eventually("the change arrives", || {
            described(&gateway, "orders")["endpoints"].as_array().unwrap().len() == 2
                && described(&gateway, "orders")["endpoints"]
                    .to_string()
                    .contains(&servers[round % 4].address.to_string())
        });
        let gone = &servers[(round + 2) % 4];
        let before = gone.requests().len();
        load.more(20);
        // Requests that were on their way may arrive.
        assert!(gone.requests().len() <= before + 4, "{} after {before}", gone.requests().len());
    }
    let exchanges = load.stop();
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
}

#[test]
fn own_files_name_services_and_reloads_keep_endpoints() {
    let (a, b) = (named("a"), named("b"));
    let consul = ConsulServer::start();
    consul.register("order-service", "a", a.address, json!({"Meta": {"zone": "eu"}}));
    consul.register("order-service", "b", b.address, json!({"Meta": {"zone": "us"}}));
    let yaml = |zone: &str, balance: &str| {
        format!(
            "consul: {{host: 127.0.0.1, port: {}}}\nloadbalancer: {{zone: {zone}}}\nupstreams: {{orders: {{service: \
             order-service, balance: {balance}}}}}\nroutes: [{{id: a, uri: 'lb://orders', predicates: [Path=/**]}}]",
            consul.address.port()
        )
    };
    let gateway = Gateway::start(&yaml("eu", "round-robin"));
    becomes(&gateway, "/x", &[("a", 3)]);
    consul.fault(Some(Fault::Away));
    gateway.reload(&yaml("eu", "random"));
    assert_eq!(shares(&gateway, "/x", 3), [("a".to_owned(), 3)].into(), "a reload keeps known endpoints");
    consul.fault(None);
    gateway.reload(&yaml("us", "random"));
    becomes(&gateway, "/x", &[("b", 3)]);
    consul.deregister("b");
    becomes(&gateway, "/x", &[("a", 3)]);
}

/// Many services, each at one of two upstreams. `TOLLGATE_SERVICES=1000 TOLLGATE_CHANGES=1000` makes as many changes a second.
#[test]
fn requests_follow_changes_of_many_services() {
    let number =
        |name: &str, default: usize| std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"));
    let (count, rate) = (number("TOLLGATE_SERVICES", 500), number("TOLLGATE_CHANGES", 500));
    let (a, b) = (named("a"), named("b"));
    let consul = ConsulServer::start();
    let names: Vec<String> = (0..count).map(|at| format!("s{at}")).collect();
    let register = |at: usize, server: &Upstream| consul.register(&names[at], &names[at], server.address, Value::Null);
    (0..count).for_each(|at| register(at, &a));
    let services: Vec<&str> = names.iter().map(String::as_str).collect();
    let gateway = gateway(&settings(&consul, ""), &services);
    eventually("all services are known", || {
        let all = gateway.admin("/api/upstreams").json();
        all.as_array().unwrap().iter().filter(|upstream| upstream["endpoints"][0].is_object()).count() == count
    });
    // Each service moves to the other upstream and back, in turns.
    let mut client = gateway.connect();
    let mut moved = vec![Instant::now(); count];
    let (start, mut changes, mut latest) = (Instant::now(), 0, Duration::ZERO);
    let at = |changes: usize| if (changes / count).is_multiple_of(2) { ("b", &b) } else { ("a", &a) };
    while changes < rate * 4 {
        let service = changes % count;
        register(service, at(changes).1);
        moved[service] = Instant::now();
        changes += 1;
        if changes % 10 == 0 {
            // The service whose turn comes next has not moved for longest: for a second, unless the numbers are changed.
            let probed = changes % count;
            let path = format!("/{}/x", names[probed]);
            let (answer, age) = (client.request("GET", &path, &[], b"").text(), moved[probed].elapsed());
            let before = changes.checked_sub(count).map_or("a", |changes| at(changes).0);
            if answer != before {
                latest = latest.max(age);
            }
            let due = Duration::from_secs_f64(changes as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    eprintln!(
        "{count} services, {:.0} changes/s, oldest stale answer {latest:?}",
        changes as f64 / start.elapsed().as_secs_f64()
    );
    assert_eq!(latest, Duration::ZERO, "a request went to an endpoint that its service had left long before");
    for (service, name) in names.iter().enumerate() {
        let last = (0..changes).rev().find(|changes| changes % count == service).map_or("a", |changes| at(changes).0);
        eventually("the last change arrives", || gateway.get(&format!("/{name}/x")).text() == last);
    }
}
