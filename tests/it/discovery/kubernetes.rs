//! Kubernetes, by a stand-in for its API server.

use std::net::SocketAddr;

use tollgate_test_support::registry::{KubernetesServer, Pod};

use super::*;

fn settings(server: &KubernetesServer, client: &str, discovery: &str) -> String {
    format!(
        "spring.cloud.kubernetes:\n  client: {{master-url: 'http://{}', {client}}}\n  discovery: {{{discovery}}}",
        server.address
    )
}

fn pod(address: SocketAddr, ready: bool, serving: bool, terminating: bool) -> Pod {
    let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
    Pod { conditions, ..Pod::ready(address) }
}

#[test]
fn endpoints_follow_kubernetes() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let server = KubernetesServer::start();
    server.apply("shop", "orders", "orders-1", &[Pod { zone: Some("eu-1"), ..Pod::ready(a.address) }], Value::Null);
    server.apply("other", "orders", "orders-1", &[Pod::ready(c.address)], Value::Null);
    let gateway = gateway(&settings(&server, "namespace: shop", ""), &["orders", "missing"]);
    assert_eq!(shares(&gateway, "/orders/x", 4), [("a".to_owned(), 4)].into(), "known before the first request");
    assert_eq!(gateway.get("/missing/x").status, 503, "no reason not to start");
    let list = &server.requests()[0];
    assert_eq!(list.path, "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices");
    assert_eq!(list.parameter("labelSelector"), Some("kubernetes.io/service-name"));
    let upstream = described(&gateway, "orders");
    assert_eq!(
        (&upstream["registry"]["kind"], &upstream["endpoints"][0]["zone"]),
        (&json!("kubernetes"), &json!("eu-1"))
    );
    server.apply("shop", "orders", "orders-2", &[Pod::ready(b.address)], Value::Null);
    becomes(&gateway, "/orders/x", &[("a", 2), ("b", 2)]);
    server.apply("shop", "orders", "orders-2", &[pod(b.address, false, true, true)], Value::Null);
    becomes(&gateway, "/orders/x", &[("a", 4)]);
    server.delete("shop", "orders-1");
    becomes(&gateway, "/orders/x", &[("b", 2)]);
    server.apply("shop", "orders", "orders-2", &[pod(b.address, false, false, true)], Value::Null);
    becomes(&gateway, "/orders/x", &[("503", 2)]);
    server.apply("shop", "missing", "m", &[Pod::ready(c.address)], Value::Null);
    becomes(&gateway, "/missing/x", &[("c", 2)]);
    assert_eq!(server.counts(), (1, 1), "all of this by one list and one watch");
}

#[test]
fn namespaces_labels_and_ports_are_chosen() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let server = KubernetesServer::start();
    let ports = |web: u16, main: u16| {
        json!({"ports": [{"name": "web", "port": web}, {"name": "main", "port": main, "protocol": "TCP"},
                         {"name": "main", "port": 1, "protocol": "UDP"}],
               "metadata": {"labels": {"tier": "front"}}})
    };
    server.apply("one", "orders", "o", &[Pod::ready(a.address)], ports(1, a.address.port()));
    server.apply("two", "orders", "o", &[Pod::ready(b.address)], ports(1, b.address.port()));
    server.apply("two", "orders", "other-tier", &[Pod::ready(c.address)], Value::Null);
    server.apply("three", "orders", "o", &[Pod::ready(c.address)], ports(1, c.address.port()));
    let chosen = "namespaces: [one, two], service-labels: {tier: front}, primary-port-name: main";
    let some = gateway(&settings(&server, "", chosen), &["orders"]);
    becomes(&some, "/orders/x", &[("a", 2), ("b", 2)]);
    let all = gateway(
        &settings(&server, "", "all-namespaces: true, service-labels.tier: front, primary-port-name: main"),
        &["orders"],
    );
    becomes(&all, "/orders/x", &[("a", 2), ("b", 2), ("c", 2)]);
    assert!(server.requests().iter().any(|request| request.path == "/apis/discovery.k8s.io/v1/endpointslices"));
    let off = settings(&server, "", "enabled: false") + "\nupstreams: {orders: {endpoints: ['http://127.0.0.1:1']}}";
    assert_eq!(gateway(&off, &["orders"]).get("/orders/x").status, 502);
}

#[test]
fn the_token_is_read_again_and_watches_resume_where_they_were() {
    let (a, b) = (named("a"), named("b"));
    let server = KubernetesServer::start();
    server.require("first");
    server.apply("default", "orders", "o", &[Pod::ready(a.address)], Value::Null);
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let gateway = gateway(&settings(&server, &format!("oauth-token-file: {}", token.display()), ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
    eventually("it watches", || server.counts().1 == 1);
    // Long enough for a watch that is worth resuming.
    eventually("the list ages", || gateway.metric("tollgate_upstream_list_age_seconds{", &[]) > 1.0);
    server.bookmark();
    eventually("the bookmark arrives", || gateway.metric("tollgate_upstream_list_age_seconds{", &[]) < 1.0);
    std::fs::write(&token, "second").unwrap();
    server.require("second");
    server.cut();
    eventually("the watch is resumed", || server.counts().1 >= 2);
    server.apply("default", "orders", "o", &[Pod::ready(b.address)], Value::Null);
    becomes(&gateway, "/orders/x", &[("b", 1)]);
    let watches: Vec<_> =
        server.requests().into_iter().filter(|request| request.parameter("watch").is_some()).collect();
    let last = watches.last().unwrap();
    assert_eq!((last.header("authorization"), last.parameter("resourceVersion")), (Some("Bearer second"), Some("102")));
    assert_eq!(server.counts().0, 1, "nothing was listed again");
}

#[test]
fn a_forgotten_version_and_an_outage_with_other_data_read_the_list_again() {
    let (a, b) = (named("a"), named("b"));
    let server = KubernetesServer::start();
    for number in 0..1200 {
        server.apply("default", "many", &format!("m{number}"), &[], Value::Null);
    }
    server.apply("default", "orders", "o", &[Pod::ready(a.address)], Value::Null);
    let gateway = gateway(&settings(&server, "", ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
    assert_eq!(server.counts().0, 3, "three pages");
    server.fault(Some(Fault::Away));
    let failed = || gateway.metric("tollgate_registry_requests_total{", &["outcome=\"failed\""]);
    eventually("the outage is noticed", || failed() >= 2.0);
    assert_eq!(gateway.get("/orders/x").text(), "a", "the last list is kept");
    server.apply("default", "orders", "o", &[Pod::ready(b.address)], Value::Null);
    server.compact();
    server.bookmark();
    server.fault(None);
    becomes(&gateway, "/orders/x", &[("b", 1)]);
    assert_eq!(server.counts().0, 6, "410 makes it list again");
    server.lose_data();
    server.apply("default", "orders", "o2", &[Pod::ready(a.address)], Value::Null);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
}

#[test]
fn hostile_answers_harm_nothing() {
    let a = named("a");
    let server = KubernetesServer::start();
    server.apply("default", "orders", "o", &[Pod::ready(a.address)], Value::Null);
    let gateway = gateway(&settings(&server, "", ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
    let failed = || gateway.metric("tollgate_registry_requests_total{", &["outcome=\"failed\""]);
    survives(&gateway, "/orders/x", "a", failed, |fault| server.fault(fault));
    for evil in [
        json!({"endpoints": [{"addresses": ["a\r\nHost: b"]}]}),
        json!({"endpoints": [{"addresses": "10.0.0.1"}]}),
        json!({"ports": [{"port": 70_000}]}),
        json!({"endpoints": 7}),
    ] {
        server.apply("default", "orders", "o", &[Pod::ready(a.address)], evil);
    }
    gateway.logged("instances ignored");
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    assert!(!gateway.log().contains("Host: b"), "{}", gateway.log());
    assert!(gateway.resident() < 200 << 20, "bounded");
}
