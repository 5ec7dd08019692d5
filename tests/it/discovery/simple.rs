//! Spring's simple discovery client.

use super::*;

#[test]
fn the_environment_lists_instances() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let prefix = "SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES";
    let names = ["ORDERSERVICE_0_URI", "ORDERSERVICE_1_HOST", "ORDERSERVICE_1_PORT", "USERS_0_URI"];
    let names = names.map(|name| format!("{prefix}_{name}"));
    let port = b.address.port().to_string();
    let values = [a.uri(), "127.0.0.1".to_owned(), port, c.uri()];
    let environment: Vec<_> = names.iter().zip(&values).map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let text = yaml(
        "spring.cloud.discovery.client.simple.instances.users[0].uri: http://127.0.0.1:1",
        &["order-service", "users"],
    );
    let gateway = Gateway::start_with(&text, &environment);
    assert_eq!(shares(&gateway, "/order-service/x", 4), [("a".to_owned(), 2), ("b".to_owned(), 2)].into());
    assert_eq!(shares(&gateway, "/users/x", 2), [("c".to_owned(), 2)].into(), "a list replaces that of the file");
    assert!(gateway.log().contains("the environment overrides the file"), "{}", gateway.log());
}

#[test]
fn zones_apply_to_listed_instances() {
    let (a, b) = (named("a"), named("b"));
    let text = format!(
        "spring.cloud.loadbalancer: {{configurations: zone-preference, zone: eu}}\nspring.cloud.discovery.client.simple.instances.orders:\n- \
         {{uri: '{}', metadata: {{zone: us}}}}\n- {{uri: '{}', metadata: {{zone: eu}}}}",
        a.uri(),
        b.uri()
    );
    let gateway = gateway(&text, &["orders"]);
    assert_eq!(shares(&gateway, "/orders/x", 3), [("b".to_owned(), 3)].into());
}
