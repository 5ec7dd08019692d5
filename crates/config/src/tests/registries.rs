//! Registries of Spring files: the gateway as an instance, and metadata.

use crate::tests::*;

#[test]
fn metadata_is_read_as_spring_binds_a_map_of_texts() {
    let metadata =
        "\n      version:\n      zone: eu\n      management.port: 8081\n      management: {context-path: /m}\n";
    let route = "spring:\n  application: {name: gw}\n  cloud:\n    gateway.routes: [{id: a, uri: 'lb://orders', predicates: [Path=/a/**]}]\n";
    let expected = [("management.context-path", "/m"), ("management.port", "8081"), ("version", ""), ("zone", "eu")];
    for text in [
        format!(
            "{route}eureka:\n  client: {{register-with-eureka: true}}\n  instance:\n    instance-id: ${{spring.cloud.client.ip-address}}:${{spring.application.name}}:8080\n    metadata-map:{metadata}"
        ),
        format!(
            "{route}    nacos:\n     discovery:\n      register-enabled: true\n      metadata:{}",
            metadata.replace("      ", "       ")
        ),
        format!(
            "{route}    consul:\n     discovery:\n      register: true\n      metadata:{}",
            metadata.replace("      ", "       ")
        ),
    ] {
        let config = loaded(&text).config;
        let [registered] = config.registrations.as_slice() else { panic!("{text}") };
        let found: Vec<_> =
            registered.instance.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }
    let simple = "    discovery.client.simple.instances:\n      orders: [{uri: 'http://b', metadata: {management.port: 1, weight: 2, version: }}]\n";
    assert_eq!(loaded(&format!("{route}{simple}")).config.upstreams.len(), 1);
}

const ROUTE: &str = "routes: [{id: a, uri: 'lb://orders', predicates: [Path=/a/**]}]\n";

/// A reload compares registries: what has no other effect starts no lookup and no registration again.
#[test]
fn registries_whose_settings_have_one_effect_are_equal() {
    for (short, long) in [
        (
            "consul: {token: t, discovery: {register: true, service-name: gw}}",
            "consul:\n  host: http://localhost\n  port: 8500\n  scheme: http\n  path: ''\n  token: other\n  discovery:\n    \
             {acl-token: t, order: 3, default-zone-metadata-name: zone, register: true, service-name: gw}",
        ),
        (
            "eureka: {client: {register-with-eureka: true}, instance: {appname: gw}}",
            "eureka:\n  instance: {appname: gw}\n  client:\n    service-url: {defaultZone: 'http://localhost:8761/eureka/'}\n    \
             region: us-east-1\n    availability-zones: {us-east-1: defaultZone}\n    prefer-same-zone-eureka: true\n    \
             order: 3\n    register-with-eureka: true",
        ),
        (
            "nacos: {username: u, password: p, discovery: {register-enabled: true, service: gw}}",
            "nacos:\n  server-addr: localhost:8848\n  discovery:\n    {context-path: /nacos, secure: false, username: u, password: p, \
             namespace: public, group: DEFAULT_GROUP, order: 3, register-enabled: true, service: gw}",
        ),
        (
            "kubernetes: {client: {oauth-token: t}, discovery: {namespaces: [a, b]}}",
            "kubernetes:\n  client: {master-url: 'https://kubernetes.default.svc:443', oauth-token: t, oauth-token-file: /f, namespace: c}\n  \
             discovery: {namespaces: [b, a], known-secure-ports: [443, 8443], order: 3}",
        ),
    ] {
        let [short, long] = [short, long].map(|section| loaded(&format!("{ROUTE}{section}\n")).config);
        assert_eq!(short.registries.len(), 1);
        assert_eq!(short.registries, long.registries);
        assert_eq!(short.registrations, long.registrations);
        let other = loaded(&format!("{ROUTE}consul: {{host: other}}\n")).config;
        assert_ne!(short.registries, other.registries);
    }
}

#[test]
fn no_debug_text_of_a_registry_has_a_password() {
    for section in [
        "consul: {token: hunter2, discovery: {acl-token: ''}}",
        "eureka: {client: {service-url: {defaultZone: 'http://u:hunter2@localhost:8761/eureka/'}}}",
        "nacos: {server-addr: 'http://u:hunter2@localhost:8848', username: u, password: hunter2}",
        "kubernetes: {client: {master-url: 'https://u:hunter2@localhost', oauth-token: hunter2}}",
    ] {
        let config = loaded(&format!("{ROUTE}{section}\n")).config;
        assert_eq!(config.registries.len(), 1, "{section}");
        let text = format!("{:?} {:?}", config.registries, config.registrations);
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_list_or_a_map_of_texts_has_no_item_without_one() {
    for section in [
        "consul: {discovery: {server-list-query-tags: {orders: }}}",
        "consul: {discovery: {tags: [null]}}",
        "eureka: {client: {service-url: {defaultZone: }}}",
        "kubernetes: {discovery: {namespaces: [null]}}",
        "httpclient: {ssl: {trusted-x509-certificates: [null]}}",
    ] {
        let errors = refused(&format!("{ROUTE}{section}\n"));
        assert!(errors.contains("expected a text, found nothing"), "{section}: {errors}");
    }
}
