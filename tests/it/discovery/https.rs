//! Registries over HTTPS: their stand-ins stand behind a gateway that ends TLS.

use tollgate_test_support::Certificates;
use tollgate_test_support::registry::{ConsulServer, EurekaServer, KubernetesServer, NacosServer, Pod};

use super::*;

#[test]
fn registries_are_asked_over_tls_and_only_if_they_are_trusted() {
    let (made, other, a) = (Certificates::new(), Certificates::new(), named("a"));
    let (consul, eureka) = (ConsulServer::start(), EurekaServer::start());
    let (nacos, kubernetes) = (NacosServer::start(), KubernetesServer::start());
    consul.register("one", "a", a.address, Value::Null);
    eureka.register("two", "a", a.address, Value::Null);
    nacos.register(("", "DEFAULT_GROUP", "three"), a.address, Value::Null);
    kubernetes.require("bearer");
    kubernetes.apply("default", "four", "a", &[Pod::ready(a.address)], Value::Null);
    let front = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, ssl: {{certificate: {}, certificate-private-key: {}}}}}\naccess-log: \
         {{output: off}}\nroutes:\n\
         - {{id: consul, uri: 'http://{}', predicates: [Path=/v1/**]}}\n- {{id: eureka, uri: 'http://{}', predicates: [Path=/eureka/**]}}\n\
         - {{id: nacos, uri: 'http://{}', predicates: [Path=/nacos/**]}}\n- {{id: kubernetes, uri: 'http://{}', predicates: [Path=/apis/**]}}\n",
        made.server().display(),
        made.server_key().display(),
        consul.address,
        eureka.address,
        nacos.address,
        kubernetes.address,
    ));
    let port = front.address.port();
    let settings = |trusted: &Certificates| {
        let tls = format!("tls: {{ca: {}}}", trusted.ca().display());
        format!(
            "spring.cloud:\n  consul: {{host: localhost, scheme: https, port: {port}, {tls}}}\n  \
             kubernetes.client: {{master-url: 'https://localhost:{port}', ca-cert-file: {}, oauth-token: bearer, namespace: default}}\n  \
             nacos.discovery: {{server-addr: 'https://localhost:{port}', {tls}}}\n\
             eureka.client: {{service-url.defaultZone: 'https://localhost:{port}/eureka/', {tls}}}",
            trusted.ca().display()
        )
    };
    let services = ["one", "two", "three", "four"];
    let trusting = gateway(&settings(&made), &services);
    services.iter().for_each(|name| becomes(&trusting, &format!("/{name}/x"), &[("a", 1)]));
    assert_eq!(trusting.metric("tollgate_registry_up{", &[]), 4.0);
    let refusing = gateway(&settings(&other), &services);
    for registry in ["consul", "eureka", "nacos", "kubernetes"] {
        let failed = || refusing.metric("tollgate_registry_requests_total{", &["outcome=\"failed\"", registry]);
        eventually("each registry is refused", || failed() >= 1.0);
    }
    services.iter().for_each(|name| assert_eq!(refusing.get(&format!("/{name}/x")).status, 503));
    assert!(refusing.log().contains("TLS handshake failed"), "{}", refusing.log());
}
