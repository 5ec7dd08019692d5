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
