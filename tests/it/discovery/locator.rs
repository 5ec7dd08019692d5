//! `discovery.locator`: routes of the services that the registries know.

use tollgate_test_support::registry::{ConsulServer, EurekaServer, NacosServer};

use super::*;
use crate::support::load::{Load, statuses};

fn status(gateway: &Gateway, path: &str) -> u16 {
    gateway.get(path).status
}

#[test]
fn routes_come_and_go_with_the_services() {
    let (a, b) = (named("a"), named("b"));
    let eureka = EurekaServer::start();
    eureka.register("orders", "a", a.address, Value::Null);
    let gateway = Gateway::start(&format!(
        "eureka.client: {{service-url: {{defaultZone: '{}'}}, registry-fetch-interval-seconds: 1}}\nspring.cloud.gateway:\n  \
         default-filters: ['AddRequestHeader=X-Default,1']\n  discovery.locator: {{enabled: true, lower-case-service-id: true}}\n  \
         routes: ['own=lb://orders,Path=/own/**']\n",
        eureka.url()
    ));
    assert_eq!(gateway.get("/orders/items/1").text(), "a", "known from the start");
    let request = a.requests().pop().unwrap();
    assert_eq!((request.target(), request.header("x-default")), ("/items/1", Some("1")), "the name is removed");
    assert_eq!(status(&gateway, "/users/x"), 404);
    let load = Load::start(&[gateway.address], 2, &["/own/x"]);
    eureka.register("users", "b", b.address, Value::Null);
    eureka.register("a/../b", "evil", b.address, Value::Null);
    eventually("the new route is there", || gateway.get("/users/x").text() == "b");
    assert_eq!(gateway.get("/users").text(), "b");
    load.more(10);
    eureka.cancel("users", "b");
    eventually("the route is gone", || status(&gateway, "/users/x") == 404);
    load.more(10);
    let exchanges = load.stop();
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())], "other routes are untouched");
    let ids = gateway.admin("/api/routes").text();
    assert!(ids.contains("ReactiveCompositeDiscoveryClient_ORDERS") && !ids.contains("USERS"), "{ids}");
    eureka.fault(Some(Fault::Away));
    gateway.logged("registry request failed");
    assert_eq!(gateway.get("/orders/x").text(), "a", "an outage keeps routes");
}

#[test]
fn a_reload_to_a_locator_whose_registry_has_no_service_yet_is_applied() {
    let (a, eureka) = (named("a"), EurekaServer::start());
    let locator = format!(
        "eureka.client: {{service-url: {{defaultZone: '{}'}}, registry-fetch-interval-seconds: 1}}\n\
         spring.cloud.gateway.discovery.locator: {{enabled: true, lower-case-service-id: true}}\n",
        eureka.url()
    );
    let gateway = Gateway::start("routes: [{id: own, uri: 'echo:', predicates: [Path=/own]}]\n");
    assert_eq!(status(&gateway, "/own"), 200);
    gateway.reload(&locator);
    assert_eq!((status(&gateway, "/own"), gateway.metric("tollgate_reloads_total", &[])), (404, 1.0));
    eureka.register("orders", "a", a.address, Value::Null);
    eventually("the route of the service is there", || gateway.get("/orders/x").text() == "a");
}

#[test]
fn plain_expressions_make_other_routes() {
    let a = named("a");
    let consul = ConsulServer::start();
    consul.register("orders", "a", a.address, Value::Null);
    let gateway = Gateway::start(&format!(
        "spring.cloud.consul: {{host: 127.0.0.1, port: {}}}\nspring.cloud.gateway.discovery.locator:\n  enabled: true\n  \
         url-expression: \"'lb://' + serviceId\"\n  predicates:\n  - {{name: Path, args: {{pattern: \"'/api/'+serviceId+'/**'\"}}}}\n  \
         filters:\n  - {{name: StripPrefix, args: {{parts: 2}}}}\n",
        consul.address.port()
    ));
    assert_eq!(gateway.get("/api/orders/x").text(), "a");
    assert_eq!(a.requests().pop().unwrap().target(), "/x");
    consul.register("users", "u", a.address, Value::Null);
    eventually("the new route is there", || status(&gateway, "/api/users/x") == 200);
    consul.deregister("u");
    eventually("the route is gone", || status(&gateway, "/api/users/x") == 404);
}

#[test]
fn metadata_select_the_services_and_their_paths() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let locator = "spring.cloud.gateway.discovery.locator:\n  enabled: true\n  include-expression: \"metadata['edge'] == 'true'\"\n  \
                   predicates: [\"Path='/' + (metadata['path'] ?: serviceId.toLowerCase()) + '/**'\"]\n  filters: [StripPrefix=1]\n";
    let edge = |path: &str| json!({"edge": "true", "path": path});
    let (eureka, consul, nacos) = (EurekaServer::start(), ConsulServer::start(), NacosServer::start());
    let gateways = [
        format!(
            "eureka.client: {{service-url: {{defaultZone: '{}'}}, registry-fetch-interval-seconds: 1}}\n",
            eureka.url()
        ),
        format!("spring.cloud.consul: {{host: 127.0.0.1, port: {}}}\n", consul.address.port()),
        format!("spring.cloud.nacos.discovery: {{server-addr: '{}', poll-interval: 100ms}}\n", nacos.address),
    ];
    let register = |name: &str, upstream: &Upstream, metadata: Value| {
        let meta = json!({"metadata": metadata});
        eureka.register(name, name, upstream.address, meta.clone());
        consul.register(name, name, upstream.address, json!({"Meta": metadata}));
        nacos.register(("", "DEFAULT_GROUP", name), upstream.address, meta);
    };
    register("orders", &a, edge("o"));
    register("users", &b, edge(""));
    register("internal", &c, json!({"edge": "false"}));
    let gateways = gateways.map(|registry| Gateway::start(&format!("{registry}{locator}")));
    for gateway in &gateways {
        assert_eq!(gateway.get("/o/x").text(), "a", "known from the start");
        assert_eq!(gateway.get("/users/x").text(), "b");
        assert_eq!((status(gateway, "/internal/x"), status(gateway, "/orders/x")), (404, 404));
    }
    register("internal", &c, edge("in"));
    for gateway in &gateways {
        eventually("changed metadata change the routes", || gateway.get("/in/x").text() == "c");
    }
}

#[test]
fn services_of_nacos_get_routes() {
    for nacos in [NacosServer::start(), NacosServer::start_v3()] {
        let a = named("a");
        nacos.register(("", "DEFAULT_GROUP", "orders"), a.address, Value::Null);
        let gateway = Gateway::start(&format!(
            "spring.cloud.nacos.discovery: {{server-addr: '{}', poll-interval: 100ms}}\n\
             spring.cloud.gateway.discovery.locator.enabled: true\n",
            nacos.address
        ));
        assert_eq!(gateway.get("/orders/x").text(), "a");
        nacos.deregister(a.address);
        eventually("the route is gone", || status(&gateway, "/orders/x") == 404);
    }
}

#[test]
fn names_come_from_the_next_server_and_after_a_new_login() {
    let (a, b) = (named("a"), named("b"));
    let (away, nacos) = (NacosServer::start(), NacosServer::start());
    away.fault(Some(Fault::Away));
    nacos.require("nacos", "n@cos&1");
    nacos.register(("", "DEFAULT_GROUP", "orders"), a.address, Value::Null);
    let gateway = Gateway::start(&format!(
        "spring.cloud.nacos.discovery: {{server-addr: '{},{}', poll-interval: 100ms, username: nacos, password: 'n@cos&1'}}\n\
         spring.cloud.gateway.discovery.locator.enabled: true\n",
        away.address, nacos.address
    ));
    eventually("the route is there", || gateway.get("/orders/x").text() == "a");
    nacos.revoke_tokens();
    nacos.register(("", "DEFAULT_GROUP", "users"), b.address, Value::Null);
    eventually("the new route is there", || gateway.get("/users/x").text() == "b");
}

/// Routes of the file before a reload to a locator.
const OWN: &str = "routes: [{id: own, uri: 'echo:', predicates: [Path=/own]}]\n";

fn to_locator(eureka: &EurekaServer) -> String {
    format!(
        "eureka.client: {{service-url: {{defaultZone: '{}'}}, registry-fetch-interval-seconds: 1}}\n\
         spring.cloud.gateway.discovery.locator: {{enabled: true, lower-case-service-id: true}}\n",
        eureka.url()
    )
}

#[test]
fn a_reload_to_a_locator_keeps_the_routes_until_a_registry_responds() {
    let (a, eureka) = (named("a"), EurekaServer::start());
    eureka.register("orders", "a", a.address, Value::Null);
    eureka.fault(Some(Fault::Away));
    let gateway = Gateway::start(OWN);
    gateway.reload(&to_locator(&eureka));
    let line = gateway.logged("configuration not reloaded");
    assert!(line.contains("the running one stays in use"), "{line}");
    assert_eq!(status(&gateway, "/own"), 200);
    let refused = gateway.admin("/api/config").json();
    let server = format!("http://{}", eureka.address);
    let detail = refused["refused-reload"]["detail"].as_str().unwrap();
    assert!(detail.contains("no registry has responded") && detail.contains(&server), "{detail}");
    let (code, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(code == Some(0) && out.contains("\nrefused ") && out.contains("no registry has responded"), "{out}");
    let (code, _, err) = run(&["reload", &gateway.admin.to_string()]);
    assert!(code == Some(1) && err.contains("no registry has responded"), "{err}");
    let load = Load::start(&[gateway.address], 1, &["/own"]);
    load.more(10);
    eureka.fault(None);
    gateway.logged("a registry has responded: the configuration is reloaded");
    eventually("the configuration is applied", || status(&gateway, "/own") == 404);
    assert_eq!(gateway.get("/orders/x").text(), "a", "with the routes of the services from its first moment");
    let exchanges = load.stop();
    assert!(statuses(&exchanges).iter().all(|(status, _)| [200, 404].contains(status)), "{:?}", statuses(&exchanges));
    let applied = gateway.admin("/api/config").json();
    assert_eq!((&applied["refused-reload"], &applied["reloads"]), (&Value::Null, &json!(1)));
    assert_eq!(applied["registries"][0]["server"], json!(server));
    let (_, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(out.contains("\nregistry eureka ") && out.contains(", responded "), "{out}");
}

#[test]
fn a_later_reload_ends_the_wait_for_a_registry() {
    let (a, eureka) = (named("a"), EurekaServer::start());
    eureka.register("orders", "a", a.address, Value::Null);
    eureka.fault(Some(Fault::Silent));
    let mut gateway = Gateway::start(OWN);
    gateway.reload(&to_locator(&eureka));
    assert_eq!(status(&gateway, "/own"), 200);
    gateway.reload(&OWN.replace("/own", "/other"));
    assert_eq!((status(&gateway, "/own"), status(&gateway, "/other")), (404, 200));
    eureka.fault(None);
    // A reload of the same file is the only one from here on.
    gateway.reload(&OWN.replace("/own", "/third"));
    assert_eq!((status(&gateway, "/third"), status(&gateway, "/orders/x")), (200, 404));
    assert!(!gateway.log().contains("a registry has responded"), "{}", gateway.log());
    // A file with errors ends it, too.
    eureka.fault(Some(Fault::Away));
    gateway.reload(&to_locator(&eureka));
    gateway.reload("routes: 5\n");
    eureka.fault(None);
    assert_eq!(status(&gateway, "/third"), 200);
    // Nothing of it keeps the gateway from ending.
    eureka.fault(Some(Fault::Silent));
    gateway.reload(&to_locator(&eureka));
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_start_with_a_locator_whose_registry_never_responds_tells_so() {
    let eureka = EurekaServer::start();
    eureka.fault(Some(Fault::Away));
    let gateway = Gateway::start(&to_locator(&eureka));
    gateway.logged("registry request failed");
    let registry = gateway.admin("/api/config").json()["registries"][0].clone();
    assert_eq!((&registry["kind"], &registry["age-seconds"]), (&json!("eureka"), &Value::Null));
    assert!(registry["error"].is_string(), "{registry}");
    let (_, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(out.contains("0 routes") && out.contains("has not responded: "), "{out}");
}
