//! Spring Boot's endpoints on the port for traffic, where an application.yml has no management port of its own.

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;

/// Starts a gateway without a management port of its own. Its admin port has the address `admin`.
fn start(admin: &str, management: &str) -> Gateway {
    let yaml = format!(
        "server: {{address: 127.0.0.1, workers: 1}}\naccess-log: {{output: off}}\nspring.cloud.gateway.server.webflux:\n  routes:\n  \
         - {{id: all, uri: 'echo:', predicates: [Path=/**], filters: ['AddResponseHeader=X-Route,all']}}\n\
         management:\n  server.address: {admin}\n{management}"
    );
    let gateway = Gateway::start_with(&yaml, &[("MANAGEMENT_SERVER_PORT", "")]);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    gateway
}

/// Asks for each path, and checks the status and whether a route answers.
fn check(gateway: &Gateway, table: &[(&str, u16, bool)]) {
    for (path, status, routed) in table {
        let response = gateway.get(path);
        let text = response.text();
        assert_eq!(response.status, *status, "{path}: {text}");
        assert_eq!(response.header("x-route").is_some(), *routed, "{path}: {text}");
        assert!(*routed || !text.contains("/api/"), "{path} lists the admin port: {text}");
    }
}

#[test]
fn health_is_served_on_the_traffic_port_and_nothing_that_is_not_exposed() {
    let gateway = start("127.81.0.1", "  endpoint.health.show-details: never\n");
    check(
        &gateway,
        &[
            ("/actuator", 200, false),
            ("/actuator/health", 200, false),
            ("/actuator/health/", 200, false),
            ("/actuator/health/liveness", 200, false),
            ("/actuator/health/readiness", 200, false),
            ("/actuator/health/none", 404, false),
            ("/actuator/healthy", 200, true),
            ("/actuator/prometheus", 200, true),
            ("/actuator/gateway/routes", 200, true),
            ("/actuator/env", 200, true),
            ("/health/live", 200, true),
            ("/metrics", 200, true),
            ("/api/routes", 200, true),
            ("/livez", 200, true),
        ],
    );
    assert_eq!(gateway.get("/actuator/health").text(), "{\n  \"status\": \"UP\"\n}\n");
    let links = gateway.get("/actuator").text();
    assert!(links.contains("/actuator/health") && !links.contains("gateway"), "{links}");
    let mut client = Connection::open(gateway.address);
    let head = client.request("HEAD", "/actuator/health", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for method in ["POST", "PUT", "DELETE"] {
        let refused = client.request(method, "/actuator/health", &[], b"x");
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(client.request("GET", "/actuator/health", &[], b"").status, 200, "the connection stays in step");
}

#[test]
fn exposed_endpoints_are_readable_and_never_writable() {
    let exposed = "  endpoints.web: {base-path: /manage, exposure: {include: 'health,gateway,prometheus,info', exclude: prometheus}}\n  \
                   endpoint: {gateway.access: unrestricted, health: {show-details: always, probes.add-additional-paths: true}}\n";
    let gateway = start("127.81.0.2", exposed);
    check(
        &gateway,
        &[
            ("/manage/gateway/routes", 200, false),
            ("/manage/gateway/routes/all", 200, false),
            ("/manage/gateway/routes/none", 404, false),
            ("/manage/gateway/refresh", 404, false),
            ("/manage/prometheus", 200, true),
            ("/manage/info", 404, false),
            ("/manage/info/git", 404, false),
            ("/actuator/health", 200, true),
            ("/livez", 200, false),
            ("/readyz", 200, false),
        ],
    );
    assert!(gateway.get("/manage/health").text().contains("\"memory\""), "details are asked for");
    let mut client = Connection::open(gateway.address);
    for path in ["/manage/gateway/refresh", "/manage/gateway/routes/x", "/livez"] {
        let refused = client.request("POST", path, &[], b"{}");
        assert!([404, 405].contains(&refused.status), "{path}: {}", refused.status);
    }
    assert!(!gateway.log().contains("reloaded"), "{}", gateway.log());
    gateway.reload(
        "server: {address: 127.0.0.1, workers: 1}\naccess-log: {output: off}\nspring.cloud.gateway.server.webflux.routes:\n\
         - {id: all, uri: 'echo:', predicates: [Path=/**], filters: ['AddResponseHeader=X-Route,all']}\n\
         management: {server.address: 127.81.0.2, endpoints.web.exposure: {include: '*', exclude: 'health,env'}}\n"
    );
    check(
        &gateway,
        &[
            ("/actuator/health", 200, true),
            ("/actuator/env", 200, true),
            ("/actuator/heapdump", 404, false),
            ("/actuator/gateway/routes", 404, false),
            ("/actuator/prometheus", 200, false),
            ("/manage/gateway/routes", 200, true),
        ],
    );
}

#[test]
fn with_tokens_only_health_needs_none() {
    let settings = "  endpoints.web.exposure.include: 'health,prometheus'\n  tokens: [{name: reader, token: 0123456789abcdef0123456789abcdef, role: read}]\n";
    let gateway = start("127.81.0.3", settings);
    check(&gateway, &[("/actuator/health", 200, false), ("/actuator/prometheus", 401, false)]);
    let mut client = Connection::open(gateway.address);
    let bearer = [("Authorization", "Bearer 0123456789abcdef0123456789abcdef")];
    assert_eq!(client.request("GET", "/actuator/prometheus", &bearer, b"").status, 200);
}

#[test]
fn a_management_port_of_its_own_leaves_the_traffic_port_to_routes() {
    let yaml = "server: {address: 127.0.0.1, workers: 1}\naccess-log: {output: off}\nspring.cloud.gateway.server.webflux:\n  routes:\n  \
                - {id: all, uri: 'echo:', predicates: [Path=/**], filters: ['AddResponseHeader=X-Route,all']}\n\
                management.endpoints.web.exposure.include: '*'\n";
    let gateway = Gateway::start(yaml);
    check(&gateway, &[("/actuator/health", 200, true), ("/actuator", 200, true)]);
    let without = Gateway::start_with(&yaml.replace("management.endpoints", "other.endpoints"), &[]);
    check(&without, &[("/actuator/health", 200, true)]);
}
