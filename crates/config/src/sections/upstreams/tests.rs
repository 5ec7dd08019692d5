#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use crate::*;

fn config(text: &str) -> Config {
    parse("test.yaml", text, &|_| None).unwrap_or_else(|problems| panic!("{problems}")).config
}

fn notes(text: &str) -> String {
    parse("test.yaml", text, &|_| None).unwrap_or_else(|problems| panic!("{problems}")).notes.to_string()
}

fn addresses(upstream: &Upstream) -> Vec<(String, u32, u16)> {
    let EndpointSource::Listed(list) = &upstream.endpoints else { panic!("{:?}", upstream.endpoints) };
    list.iter().map(|one| (one.address.to_string(), one.weight, one.priority)).collect()
}

#[test]
fn an_upstream_needs_endpoints_and_has_defaults_for_all_else() {
    let config = config(
        "upstreams:\n  orders: {endpoints: [\"http://a\", {uri: \"https://[::1]\", weight: 3, priority: 1}]}\n\
         routes: [\"a=lb://orders,Path=/**\"]\n",
    );
    let upstream = &config.upstreams[0];
    assert_eq!(addresses(upstream), [("http://a:80".to_owned(), 1, 0), ("https://[::1]:443".to_owned(), 3, 1)]);
    assert_eq!((&upstream.balance, &upstream.health), (&Balance::LeastRequest, &None));
    let ejection = upstream.ejection.as_ref().unwrap();
    assert_eq!((ejection.consecutive_failures.get().get(), ejection.max_percent.get()), (5, 50));
    assert_eq!(
        (ejection.base_time.get(), ejection.max_time.get()),
        (Duration::from_secs(30), Duration::from_secs(300))
    );
    let failures: Vec<u16> = (200..600).filter(|code| ejection.fails((*code).try_into().unwrap())).collect();
    assert_eq!(failures, [502, 503, 504]);
    assert!(!config.use404 && config.dns.server.is_empty());
    assert!(matches!(&config.routes[0].uri, Target::Balanced { upstream: used, scheme: None } if used == upstream));
}

#[test]
fn a_wrong_dns_name_is_one_error() {
    let text = "upstreams: {a: {dns: {name: 127.0.0.1}}}\nroutes: []\n";
    let report = parse("test.yaml", text, &|_| None).unwrap_err().to_string();
    assert_eq!(report.matches("error: ").count(), 1, "{report}");
}

#[test]
fn dns_names_and_health_checks_are_read() {
    let config = config(
        "dns: {server: [10.0.0.2, \"10.0.0.3:5353\", \"::1\"], timeout: 300ms}\nloadbalancer: {use404: true}\nupstreams:\n  \
         a: {dns: {name: a.internal., scheme: https, type: any}, health: {}}\n  \
         b: {dns: {name: _http._tcp.b, type: SRV, refresh: 5s}, health: {enabled: false}, ejection: {enabled: false}}\nroutes: []\n",
    );
    let servers: Vec<String> = config.dns.server.iter().map(|server| server.0.to_string()).collect();
    assert_eq!(servers, ["10.0.0.2:53", "10.0.0.3:5353", "[::1]:53"]);
    assert!(config.use404);
    let [a, b] = config.upstreams.as_slice() else { panic!() };
    let EndpointSource::Dns(query) = &a.endpoints else { panic!("{:?}", a.endpoints) };
    assert_eq!((query.name(), query.port(), query.records.0), ("a.internal", 443, Records::Any));
    assert_eq!((query.scheme.0, query.refresh.get()), (Scheme::Https, Duration::from_secs(30)));
    let health = a.health.as_ref().unwrap();
    assert_eq!(
        (health.path.0.as_str(), health.interval.get(), health.timeout.get()),
        ("/", Duration::from_secs(5), Duration::from_secs(1))
    );
    assert_eq!(
        (health.healthy.get().get(), health.unhealthy.get().get(), &health.status),
        (2, 3, &Statuses(vec![200..=399]))
    );
    assert!(matches!(&b.endpoints, EndpointSource::Dns(DnsQuery { records: Word(Records::Srv), .. })));
    assert_eq!((&b.health, &b.ejection), (&None, &None));
}

#[test]
fn lb_uris_have_an_upstream_and_an_optional_scheme() {
    for (uri, wanted) in [
        ("lb://orders", None),
        ("LB://Orders/", None),
        ("lb:ws://orders", Some(Scheme::Http)),
        ("lb:https://orders", Some(Scheme::Https)),
        ("lb:wss://orders", Some(Scheme::Https)),
    ] {
        let text = format!("upstreams: {{orders: {{endpoints: [\"http://a\"]}}}}\nroutes: [\"a={uri},Path=/**\"]\n");
        let config = config(&text);
        assert!(matches!(&config.routes[0].uri, Target::Balanced { scheme, .. } if *scheme == wanted), "{uri}");
        assert_eq!(notes(&text), "", "{uri}");
    }
    for uri in ["lb:orders", "lb://", "lb:ftp://orders", "lb://a@orders", "lb://order"] {
        let text = format!("upstreams: {{orders: {{endpoints: [\"http://a\"]}}}}\nroutes: [\"a={uri},Path=/**\"]\n");
        assert!(parse("test.yaml", &text, &|_| None).is_err(), "{uri}");
    }
}

#[test]
fn springs_instances_become_round_robin_upstreams() {
    let config = config(
        "spring.cloud:\n  gateway:\n    loadbalancer.use404: true\n    routes: [\"a=lb://orders,Path=/**\"]\n  loadbalancer:\n    \
         configurations: weighted\n    clients:\n      shop: {configurations: health-check, health-check: {path: {shop: /ping}, port: 81}}\n  \
         discovery.client.simple.instances:\n    orders[0]: {uri: \"http://a:8080\", metadata: {weight: 4}}\n    \
         orders[1]: {host: b, port: 8443, secure: true}\n    shop: [{uri: \"http://c\", metadata: {weight: 4}}]\n",
    );
    let [orders, shop] = config.upstreams.as_slice() else { panic!() };
    assert_eq!(addresses(orders), [("http://a:8080".to_owned(), 4, 0), ("https://b:8443".to_owned(), 1, 0)]);
    assert_eq!((&orders.balance, &orders.health), (&Balance::RoundRobin, &None));
    assert_eq!(addresses(shop), [("http://c:80".to_owned(), 1, 0)]);
    let health = shop.health.as_ref().unwrap();
    assert_eq!((health.path.0.as_str(), health.port.map(Ranged::get)), ("/ping", Some(81)));
    assert_eq!(
        (health.healthy.get().get(), health.unhealthy.get().get(), &health.status),
        (1, 1, &Statuses(vec![200..=200]))
    );
    assert_eq!(health.interval.get(), Duration::from_secs(25));
    assert!(config.use404 && orders.ejection.is_some());
}

#[test]
fn a_disabled_registry_is_skipped_like_other_foreign_settings() {
    let text = |eureka: &str| format!("spring.cloud.gateway.routes: [\"a=http://a,Path=/**\"]\neureka: {eureka}\n");
    assert!(notes(&text("{client: {enabled: false}}")).contains("skipped: eureka"));
    assert!(!notes(&text("{client: {register-with-eureka: true}}")).contains("is a registry"));
}
