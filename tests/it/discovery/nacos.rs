//! Nacos, by a stand-in.

use tollgate_test_support::registry::NacosServer;

use super::*;

fn settings(nacos: &NacosServer, more: &str) -> String {
    format!(
        "spring.cloud.nacos.discovery: {{server-addr: '{}', poll-interval: 100ms{more}}}\nspring.cloud.nacos.config: {{file-extension: yml}}",
        nacos.address
    )
}

fn endpoints_follow(nacos: &NacosServer) {
    let (a, b) = (named("a"), named("b"));
    nacos.require("nacos", "n@cos&1");
    nacos.register(("dev", "SHOP", "orders"), a.address, Value::Null);
    nacos.register(("", "SHOP", "orders"), b.address, Value::Null);
    nacos.register(("dev", "DEFAULT_GROUP", "orders"), b.address, Value::Null);
    let text = settings(nacos, ", namespace: dev, group: SHOP, username: nacos, password: 'n@cos&1'");
    let gateway = gateway(&text, &["orders", "missing"]);
    assert_eq!(shares(&gateway, "/orders/x", 2), [("a".to_owned(), 2)].into(), "known before the first request");
    assert_eq!(gateway.get("/missing/x").status, 503);
    nacos.register(("dev", "SHOP", "orders"), b.address, json!({"weight": 3.0}));
    becomes(&gateway, "/orders/x", &[("a", 2), ("b", 6)]);
    nacos.register(("dev", "SHOP", "orders"), b.address, json!({"enabled": false}));
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    nacos.register(("dev", "SHOP", "orders"), b.address, Value::Null);
    becomes(&gateway, "/orders/x", &[("a", 2), ("b", 2)]);
    nacos.register(("dev", "SHOP", "orders"), a.address, json!({"healthy": false}));
    becomes(&gateway, "/orders/x", &[("b", 2)]);
    nacos.revoke_tokens();
    nacos.deregister(b.address);
    becomes(&gateway, "/orders/x", &[("503", 1)]);
    assert!(!gateway.log().contains("n@cos&1") && !gateway.log().contains("token-"), "{}", gateway.log());
    nacos.fault(Some(Fault::Away));
    nacos.register(("dev", "SHOP", "missing"), a.address, Value::Null);
    gateway.logged("registry request failed; known endpoints are kept");
    nacos.fault(None);
    becomes(&gateway, "/missing/x", &[("a", 2)]);
}

#[test]
fn endpoints_follow_nacos_2() {
    endpoints_follow(&NacosServer::start());
}

#[test]
fn endpoints_follow_nacos_3() {
    endpoints_follow(&NacosServer::start_v3());
}

#[test]
fn clusters_select_and_the_next_server_takes_over() {
    let (a, b) = (named("a"), named("b"));
    let (first, second) = (NacosServer::start(), NacosServer::start_v3());
    for nacos in [&first, &second] {
        nacos.register(("", "DEFAULT_GROUP", "orders"), a.address, json!({"clusterName": "HZ"}));
        nacos.register(("", "DEFAULT_GROUP", "orders"), b.address, json!({"clusterName": "SH"}));
    }
    let text = format!(
        "spring.cloud.nacos: {{server-addr: '{},{}', discovery: {{clusters: HZ, poll-interval: 100ms, namespace: public}}}}",
        first.address, second.address
    );
    let gateway = gateway(&text, &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    first.fault(Some(Fault::Away));
    second.deregister(a.address);
    becomes(&gateway, "/orders/x", &[("503", 1)]);
    second.register(("", "DEFAULT_GROUP", "orders"), b.address, json!({"clusterName": "HZ"}));
    becomes(&gateway, "/orders/x", &[("b", 2)]);
}

#[test]
fn hostile_answers_harm_nothing() {
    let a = named("a");
    let nacos = NacosServer::start();
    nacos.register(("", "DEFAULT_GROUP", "orders"), a.address, Value::Null);
    let gateway = gateway(&settings(&nacos, ""), &["orders"]);
    becomes(&gateway, "/orders/x", &[("a", 1)]);
    let failed = || gateway.metric("tollgate_registry_requests_total{", &["outcome=\"failed\""]);
    survives(&gateway, "/orders/x", "a", failed, |fault| nacos.fault(fault));
    nacos.register(("", "DEFAULT_GROUP", "orders"), "127.0.0.1:1".parse().unwrap(), json!({"ip": "a\r\nb"}));
    gateway.logged("instances ignored");
    let asked = nacos.requests().len();
    eventually("it is asked again", || nacos.requests().len() > asked + 5);
    let log = gateway.log();
    let ignored: Vec<&str> = log.lines().filter(|line| line.contains("instances ignored")).collect();
    assert!(ignored.len() == 1 && ignored[0].contains("orders") && ignored[0].contains("no valid host"), "{log}");
    becomes(&gateway, "/orders/x", &[("a", 2)]);
}
