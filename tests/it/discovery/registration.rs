//! The gateway as an instance in registries: heartbeats, registries that forget it, and its end.

use tollgate_test_support::registry::{ConsulServer, EurekaServer, NacosServer};

use super::*;

const ROUTE: &str =
    "spring.application.name: Shop-Edge\nspring.cloud.gateway.routes: ['a=http://127.0.0.1:1,Path=/**']\n";

/// Returns the gateway's instances in Eureka.
fn instances(eureka: &EurekaServer) -> Vec<Value> {
    let all = eureka.registered().into_iter();
    all.filter(|((name, _), _)| name == "SHOP-EDGE").map(|(_, instance)| instance).collect()
}

/// Returns a port for the admin listener that no other process uses now.
fn admin_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// Returns the number of requests with `method` whose path ends with `end`.
fn count(requests: &[tollgate_test_support::registry::Request], method: &str, end: &str) -> usize {
    requests.iter().filter(|request| request.method == method && request.path.ends_with(end)).count()
}

#[test]
fn eureka_has_the_gateway_until_it_drains() {
    let eureka = EurekaServer::start();
    let settings = format!(
        "{ROUTE}eureka:\n  client: {{service-url.defaultZone: '{}', register-with-eureka: true, fetch-registry: false}}\n  \
         instance: {{lease-renewal-interval-in-seconds: 1, metadata-map: {{zone: eu}}, \
         health-check-url-path: /manage/health}}\n",
        eureka.url()
    );
    let admin = admin_port();
    let mut gateway = Gateway::start_with(&settings, &[("MANAGEMENT_SERVER_PORT", &admin)]);
    gateway.logged("registered");
    let registered = instances(&eureka);
    let id = format!("127.0.0.1:Shop-Edge:{}", gateway.address.port());
    assert_eq!((&registered[0]["instanceId"], &registered[0]["status"]), (&json!(id), &json!("UP")));
    assert_eq!(
        (&registered[0]["port"]["$"], &registered[0]["metadata"]["zone"]),
        (&json!(gateway.address.port()), &json!("eu"))
    );
    assert_eq!(
        (&registered[0]["metadata"]["management.port"], &registered[0]["healthCheckUrl"]),
        (&json!(admin), &json!(format!("http://127.0.0.1:{admin}/manage/health")))
    );
    eventually("heartbeats arrive", || count(&eureka.requests(), "PUT", &id) >= 2);
    eureka.cancel("SHOP-EDGE", &id);
    eventually("it registers again", || !instances(&eureka).is_empty());
    gateway.logged("the registry has forgotten the gateway");
    gateway.reload(&settings.replace("register-with-eureka: true", "register-with-eureka: false"));
    eventually("a reload deregisters it", || instances(&eureka).is_empty());
    gateway.reload(&settings);
    eventually("a reload registers it", || !instances(&eureka).is_empty());
    gateway.signal("TERM");
    gateway.wait();
    assert!(instances(&eureka).is_empty());
}

#[test]
fn consul_has_the_gateway_with_a_check_by_ttl() {
    let consul = ConsulServer::start();
    consul.require("s3cret");
    let settings = format!(
        "{ROUTE}spring.cloud.consul:\n  host: 127.0.0.1\n  port: {}\n  discovery: {{register: true, acl-token: s3cret, \
         hostname: edge.internal, port: 8443, instance-id: edge-1, heartbeat.ttl: 1s, metadata: {{team: x}}, \
         tags: 'edge, v2', instance-zone: eu, instance-group: blue}}\n",
        consul.address.port()
    );
    let mut gateway = Gateway::start(&settings);
    gateway.logged("registered");
    let entry = consul.registered()["edge-1"].clone();
    assert_eq!(
        (&entry["Name"], &entry["Address"], &entry["Port"]),
        (&json!("Shop-Edge"), &json!("edge.internal"), &json!(8443))
    );
    assert_eq!((&entry["Meta"]["team"], &entry["Check"]["TTL"]), (&json!("x"), &json!("1s")));
    assert_eq!(
        (&entry["Tags"], &entry["Meta"]["zone"], &entry["Meta"]["group"]),
        (&json!(["edge", "v2"]), &json!("eu"), &json!("blue"))
    );
    eventually("heartbeats arrive", || count(&consul.requests(), "PUT", "/check/pass/service:edge-1") >= 3);
    consul.lose_data();
    consul.require("s3cret");
    eventually("it registers again", || consul.registered().contains_key("edge-1"));
    gateway.signal("TERM");
    gateway.wait();
    assert!(consul.registered().is_empty());
}

#[test]
fn nacos_of_both_versions_has_the_gateway() {
    for is_v3 in [false, true] {
        let nacos = if is_v3 { NacosServer::start_v3() } else { NacosServer::start() };
        let settings = format!(
            "{ROUTE}spring.cloud.nacos.discovery: {{server-addr: '127.0.0.1:{}', register-enabled: true, group: SHOP, \
             heart-beat-interval: 200, heart-beat-timeout: 1000, weight: 2.5, cluster-name: HZ, metadata: {{team: x}}}}\n",
            nacos.address.port()
        );
        let admin = admin_port();
        let mut gateway = Gateway::start_with(&settings, &[("MANAGEMENT_SERVER_PORT", &admin)]);
        gateway.logged("registered");
        let shown = format!("{:?}", nacos.registered());
        assert!(shown.contains("Shop-Edge") && shown.contains("team"), "{shown}");
        assert!(shown.contains(&gateway.address.port().to_string()), "{shown}");
        let sent = |what: &str| {
            let (_, instance) = nacos.registered().pop().unwrap();
            assert_eq!((&instance["weight"], &instance["clusterName"]), (&json!(2.5), &json!("HZ")), "{what}");
            assert_eq!(instance["metadata"]["management.port"], json!(admin), "{what}");
        };
        sent("registered");
        let (method, end) = if is_v3 { ("POST", "/instance") } else { ("PUT", "/beat") };
        eventually("heartbeats arrive", || count(&nacos.requests(), method, end) >= 3);
        nacos.deregister(gateway.address);
        eventually("a server that forgot it has it again", || !nacos.registered().is_empty());
        let shown = format!("{:?}", nacos.registered());
        assert!(shown.contains("Shop-Edge") && shown.contains("team"), "{shown}");
        sent("by a beat");
        gateway.signal("TERM");
        gateway.wait();
        assert!(nacos.registered().is_empty());
    }
}

#[test]
fn a_registry_that_is_away_delays_neither_start_nor_end() {
    let consul = ConsulServer::start();
    consul.fault(Some(Fault::Silent));
    let settings = format!(
        "{ROUTE}spring.cloud.consul: {{host: 127.0.0.1, port: {}, discovery.register: true}}\n",
        consul.address.port()
    );
    let mut gateway = Gateway::start(&settings);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    gateway.signal("TERM");
    assert!(gateway.wait().success());
    assert!(gateway.log().contains("the registration ends with its lease"), "{}", gateway.log());
    let not_asked = Gateway::start(&settings.replace("discovery.register: true", "discovery.instance-id: x"));
    assert_eq!(not_asked.get("/x").status, 502);
    assert_eq!(count(&consul.requests(), "PUT", "/register"), 1, "only if the file asks for it");
}
