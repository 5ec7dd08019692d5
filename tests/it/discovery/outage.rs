//! Registries that are away for long, and endpoints that leave while requests wait for a connection to them.

use std::sync::{Arc, Condvar, Mutex};

use tollgate_test_support::registry::{ConsulServer, EurekaServer, KubernetesServer, NacosServer, Pod};

use super::*;
use crate::support::load::{Load, statuses};

/// Starts an upstream that answers no request before the returned switch is on.
fn held(name: &'static str) -> (Upstream, Arc<(Mutex<bool>, Condvar)>) {
    let switch = Arc::new((Mutex::new(false), Condvar::new()));
    let seen_switch = Arc::clone(&switch);
    let upstream = Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            seen(request);
            let (is_on, changed) = &*seen_switch;
            drop(changed.wait_while(is_on.lock().unwrap(), |is_on| !*is_on).unwrap());
            if stream.write_all(&response(200, &[], name.as_bytes())).is_err() {
                return;
            }
        }
    });
    (upstream, switch)
}

#[test]
fn requests_that_wait_for_a_connection_do_not_reach_an_endpoint_that_has_left() {
    let ((a, answers), b) = (held("a"), named("b"));
    let consul = ConsulServer::start();
    consul.register("orders", "a", a.address, Value::Null);
    let text = format!(
        "spring.cloud.consul: {{host: 127.0.0.1, port: {}}}\nspring.cloud.gateway.httpclient.pool: {{type: fixed, \
         max-connections: 1, acquire-timeout: 60000}}",
        consul.address.port()
    );
    let gateway = gateway(&text, &["orders"]);
    let address = gateway.address;
    let ask = move || crate::support::client::get(address, "/orders/x").text();
    let waiting: Vec<_> = (0..6).map(|_| std::thread::spawn(ask)).collect();
    let in_flight = || described(&gateway, "orders")["endpoints"][0]["in-flight"].as_u64();
    let shown = described(&gateway, "orders").to_string();
    eventually(&format!("all wait: {shown}"), || a.requests().len() == 1 && in_flight().is_none_or(|count| count == 6));
    consul.register("orders", "b", b.address, Value::Null);
    eventually("b is known", || described(&gateway, "orders")["endpoints"].as_array().unwrap().len() == 2);
    consul.deregister("a");
    eventually("those that wait go to b", || b.requests().len() == 5);
    let (is_on, changed) = &*answers;
    *is_on.lock().unwrap() = true;
    changed.notify_all();
    let mut bodies: Vec<String> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
    bodies.sort();
    assert_eq!(bodies, ["a", "b", "b", "b", "b", "b"], "the request in flight ends, no other reaches it");
    assert_eq!(a.requests().len(), 1);
}

#[test]
fn an_endpoint_that_leaves_without_another_one_fails_the_requests_that_wait() {
    let (a, answers) = held("a");
    let consul = ConsulServer::start();
    consul.register("orders", "a", a.address, Value::Null);
    let text = format!(
        "spring.cloud.consul: {{host: 127.0.0.1, port: {}}}\nspring.cloud.gateway.httpclient.pool: {{type: fixed, \
         max-connections: 1, acquire-timeout: 60000}}",
        consul.address.port()
    );
    let gateway = gateway(&text, &["orders"]);
    let address = gateway.address;
    let first = std::thread::spawn(move || crate::support::client::get(address, "/orders/x").status);
    eventually("the first one arrives", || a.requests().len() == 1);
    let second = std::thread::spawn(move || crate::support::client::get(address, "/orders/x").status);
    eventually("the second one waits", || gateway.metric("tollgate_upstream_in_flight", &["orders"]) != 1.0);
    consul.deregister("a");
    assert_eq!(second.join().unwrap(), 503);
    let (is_on, changed) = &*answers;
    *is_on.lock().unwrap() = true;
    changed.notify_all();
    assert_eq!((first.join().unwrap(), a.requests().len()), (200, 1));
}

/// Seconds for which the registries are away: `TOLLGATE_OUTAGE_SECS`, 2 without it.
fn outage() -> f64 {
    std::env::var("TOLLGATE_OUTAGE_SECS").map_or(2.0, |seconds| seconds.parse().unwrap())
}

/// Puts all registries away under load, and brings them back with other data.
#[test]
fn registries_that_are_away_cost_no_request_and_no_memory() {
    let (a, b) = (named("a"), named("b"));
    let (consul, eureka) = (ConsulServer::start(), EurekaServer::start());
    let (nacos, kubernetes) = (NacosServer::start(), KubernetesServer::start());
    let register = |upstream: &Upstream, id: &str| {
        consul.register("one", id, upstream.address, Value::Null);
        eureka.register("two", id, upstream.address, Value::Null);
        nacos.register(("", "DEFAULT_GROUP", "three"), upstream.address, Value::Null);
        kubernetes.apply("default", "four", id, &[Pod::ready(upstream.address)], Value::Null);
    };
    let fault = |fault: Option<Fault>| {
        consul.fault(fault.clone());
        eureka.fault(fault.clone());
        nacos.fault(fault.clone());
        kubernetes.fault(fault);
    };
    register(&a, "a");
    let text = format!(
        "spring.cloud:\n  consul: {{host: 127.0.0.1, port: {}}}\n  kubernetes.client: {{master-url: 'http://{}', namespace: default}}\n  \
         nacos.discovery: {{server-addr: '{}', poll-interval: 500ms}}\neureka.client: {{service-url.defaultZone: '{}', \
         registry-fetch-interval-seconds: 1}}",
        consul.address.port(),
        kubernetes.address,
        nacos.address,
        eureka.url()
    );
    const PATHS: &[&str] = &["/one/x", "/two/x", "/three/x", "/four/x"];
    let gateway = gateway(&text, &["one", "two", "three", "four"]);
    PATHS.iter().for_each(|path| becomes(&gateway, path, &[("a", 1)]));
    let load = Load::paced(&[gateway.address], 2, PATHS, Duration::from_millis(5));
    load.more(50);
    let before = gateway.resident();
    fault(Some(Fault::Away));
    let (began, away) = (Instant::now(), outage());
    let lists_age = || {
        let page = gateway.admin("/metrics").text();
        let ages = page.lines().filter(|line| line.starts_with("tollgate_upstream_list_age_seconds{"));
        ages.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).fold(f64::MAX, f64::min)
    };
    while lists_age() < away {
        load.more(20);
        assert!(began.elapsed().as_secs_f64() < away + 30.0, "the lists do not age");
    }
    assert_eq!(gateway.metric("tollgate_registry_up{", &[]), 0.0);
    let grown = gateway.resident().saturating_sub(before);
    println!("away for {:.1} s, {grown} bytes more", began.elapsed().as_secs_f64());
    assert!(grown < 16 << 20, "{grown} bytes more");
    consul.lose_data();
    eureka.lose_data();
    nacos.deregister(a.address);
    kubernetes.lose_data();
    register(&b, "b");
    fault(None);
    PATHS.iter().for_each(|path| becomes(&gateway, path, &[("b", 2)]));
    load.more(20);
    let exchanges = load.stop();
    println!("{} requests", exchanges.len());
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
}
