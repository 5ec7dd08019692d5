//! Registries over HTTPS: their stand-ins stand behind a gateway that ends TLS.

use std::net::SocketAddr;

use tollgate_test_support::Certificates;
use tollgate_test_support::registry::{ConsulServer, EurekaServer, KubernetesServer, NacosServer, Pod};

use super::*;

/// A gateway that ends TLS, with a route for each path to a server.
fn front(made: &Certificates, ssl: &str, servers: &[(&str, &str, SocketAddr)]) -> String {
    let routes = servers
        .iter()
        .map(|(id, path, address)| format!("- {{id: {id}, uri: 'http://{address}', predicates: ['Path={path}']}}\n"));
    format!(
        "server: {{address: 127.0.0.1, workers: 1, ssl: {{certificate: {}, certificate-private-key: {}{ssl}}}}}\naccess-log: \
         {{output: off}}\nroutes:\n{}",
        made.server().display(),
        made.server_key().display(),
        routes.collect::<String>()
    )
}

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
    let front = Gateway::start(&front(
        &made,
        "",
        &[
            ("consul", "/v1/**", consul.address),
            ("eureka", "/eureka/**", eureka.address),
            ("nacos", "/nacos/**", nacos.address),
            ("kubernetes", "/apis/**", kubernetes.address),
        ],
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

#[test]
fn registries_are_asked_with_the_certificates_of_stores() {
    let (made, a) = (Certificates::new(), named("a"));
    let (consul, eureka, nacos) = (ConsulServer::start(), EurekaServer::start(), NacosServer::start());
    consul.register("one", "a", a.address, Value::Null);
    eureka.register("two", "a", a.address, Value::Null);
    nacos.register(("", "DEFAULT_GROUP", "three"), a.address, Value::Null);
    let required = format!(", client-auth: need, trust-certificate: {}", made.ca().display());
    let servers = [
        ("consul", "/v1/**", consul.address),
        ("eureka", "/eureka/**", eureka.address),
        ("nacos", "/nacos/**", nacos.address),
    ];
    let front = Gateway::start(&front(&made, &required, &servers));
    let port = front.address.port();
    let (keys, trust) = made.stores("s3cret");
    let (keys, trust) = (keys.display(), trust.display());
    let stores = format!(
        "key-store: 'file:{keys}', key-store-type: PKCS12, key-store-password: s3cret, trust-store: 'file:{trust}', \
         trust-store-type: PKCS12, trust-store-password: s3cret"
    );
    let settings = |of_consul: &str, others: &str| {
        format!(
            "spring.cloud:\n  consul: {{host: localhost, scheme: https, port: {port}, tls: {{{of_consul}}}}}\n  \
             nacos.discovery: {{server-addr: 'https://localhost:{port}', tls: {{{others}}}}}\n\
             eureka.client: {{service-url.defaultZone: 'https://localhost:{port}/eureka/', tls: {{enabled: true, {others}}}}}"
        )
    };
    let of_consul = format!(
        "key-store-instance-type: PKCS12, certificate-path: {keys}, certificate-password: s3cret, key-store-path: {trust}, \
         key-store-password: s3cret"
    );
    let services = ["one", "two", "three"];
    let known = gateway(&settings(&of_consul, &stores), &services);
    services.iter().for_each(|name| becomes(&known, &format!("/{name}/x"), &[("a", 1)]));
    let without = gateway(
        &settings(
            &format!("key-store-path: {trust}, key-store-password: s3cret"),
            &format!("trust-store: {trust}, trust-store-password: s3cret"),
        ),
        &services,
    );
    for registry in ["consul", "eureka", "nacos"] {
        let failed = || without.metric("tollgate_registry_requests_total{", &["outcome=\"failed\"", registry]);
        eventually("a client without a certificate is refused", || failed() >= 1.0);
    }
    services.iter().for_each(|name| assert_eq!(without.get(&format!("/{name}/x")).status, 503));
}
