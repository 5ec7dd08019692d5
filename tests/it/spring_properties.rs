//! Spring properties that move, hide or change endpoints and metrics, in one application.yml.

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;

const APPLICATION: &str = "
server: {address: localhost, workers: 1, shutdown: graceful}
access-log: {output: off}
spring:
  lifecycle.timeout-per-shutdown-phase: 3s
  cloud.gateway:
    fail-on-route-definition-error: false
    global-filter.websocket-routing.enabled: false
    metrics: {prefix: shop.gateway, tags: {app.team: payments, path.enabled: true}}
    routes:
    - {id: broken, uri: nowhere, predicates: [Path=/a/**]}
    - {id: orders, uri: 'echo:', predicates: ['Path=/a/{id},/b/**'], filters: ['AddRequestHeader=X-A,1'], metadata: {team: x}}
    - {id: far, uri: 'http://h', predicates: [Path=/far]}
management:
  server.address: localhost
  endpoints.web: {base-path: /manage, path-mapping: {prometheus: numbers}, exposure: {include: '*', exclude: []}}
  endpoint.health.show-details: never
  metrics.tags: {region: eu}
---
spring.config.activate.on-profile: quiet
management:
  endpoints.web.exposure: {include: 'health,gateway'}
  endpoint: {gateway.access: read-only, health.probes.enabled: false}
";

#[test]
fn actuator_endpoints_have_configurable_paths() {
    let gateway = Gateway::start(APPLICATION);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let table: &[(&str, u16, &str)] = &[
        ("/manage", 200, "\"href\": \"/manage/numbers\""),
        ("/manage/health", 200, "{\n  \"status\": \"UP\"\n}\n"),
        ("/manage/health/liveness", 200, "UP"),
        ("/manage/numbers", 200, "tollgate_build_info"),
        ("/manage/prometheus", 404, "\"endpoints\""),
        ("/actuator/health", 404, "\"endpoints\""),
        ("/metrics", 200, "tollgate_build_info"),
        ("/manage/gateway", 200, "/manage/gateway/refresh"),
        ("/manage/gateway/routes", 200, "\"route_id\": \"orders\""),
        ("/manage/gateway/routes/far", 200, "\"uri\": \"http://h:80\""),
        ("/manage/gateway/routes/broken", 404, "no such route"),
        ("/manage/gateway/routes/orders/combinedfilters", 200, "\"AddRequestHeader=X-A, ****\": 1"),
        ("/manage/gateway/routes/none/combinedfilters", 404, "no such route"),
        ("/manage/gateway/routedefinitions", 200, "\"Path=/a/{id},/b/**\""),
        ("/manage/gateway/routefilters", 200, "\"StripPrefix\": null"),
        ("/manage/gateway/routepredicates", 200, "\"Path\": null"),
        ("/manage/gateway/globalfilters", 200, "{}"),
        ("/manage/gateway/refresh", 405, "methods of this path: POST"),
        ("/manage/gateway/none", 404, "\"endpoints\""),
        ("/manage/healthy", 404, "\"endpoints\""),
    ];
    for (path, status, text) in table {
        let answer = gateway.admin(path);
        assert!(
            answer.status == *status && answer.text().contains(text),
            "{path}: {} {}",
            answer.status,
            answer.text()
        );
    }
    let mut admin = Connection::open(gateway.admin);
    assert_eq!(admin.request("DELETE", "/manage/gateway/routes/orders", &[], b"").status, 405);
    assert!(gateway.log().contains("route `broken` has errors and is ignored"));
}

#[test]
fn profiles_hide_endpoints_and_refresh_reloads_the_file() {
    let quiet = Gateway::start_with(APPLICATION, &[("SPRING_PROFILES_ACTIVE", "quiet")]);
    eventually("it is ready", || quiet.admin("/health/ready").status == 200);
    let paths = ["/manage/numbers", "/manage/health/liveness", "/manage/health", "/manage/gateway/routes", "/metrics"];
    assert_eq!(paths.map(|path| quiet.admin(path).status), [404, 404, 200, 200, 200]);
    let post =
        |gateway: &Gateway| Connection::open(gateway.admin).request("POST", "/manage/gateway/refresh", &[], b"x");
    assert_eq!((post(&quiet).status, quiet.metric("tollgate_reloads_total", &[])), (405, 0.0), "it is read-only");

    let gateway = Gateway::start(APPLICATION);
    let changed = APPLICATION.replace("Path=/far", "Path=/new").replace("http://h", "echo:");
    std::fs::write(gateway.config(), &changed).unwrap();
    let answer = post(&gateway);
    assert_eq!((answer.status, answer.text().as_str()), (200, ""));
    assert_eq!(gateway.metric("tollgate_reloads_total", &[]), 1.0, "it has been read by then");
    eventually("the new route is served", || gateway.get("/new").status == 200);
    std::fs::write(gateway.config(), "routes: 5\n").unwrap();
    let refused = post(&gateway);
    assert!(refused.status == 500 && refused.text().contains("see the log"), "{}", refused.text());
    assert_eq!(gateway.get("/new").status, 200, "the running configuration stays");
}

#[test]
fn request_metrics_follow_spring_properties() {
    let gateway = Gateway::start(APPLICATION);
    for path in ["/a/1", "/a/2", "/b/x/y", "/none"] {
        gateway.get(path);
    }
    let counted = |labels: &[&str]| gateway.metric("shop_gateway_requests_seconds_count", labels);
    eventually("all are counted", || counted(&[]) == 3.0);
    assert_eq!(counted(&["path=\"/a/{id}\"", "app_team=\"payments\"", "region=\"eu\"", "routeId=\"orders\""]), 2.0);
    assert_eq!(counted(&["path=\"/b/**\""]), 1.0);
    assert_eq!(gateway.metric("tollgate_unrouted_requests_total", &["region=\"eu\""]), 1.0);
    let asked = [("Connection", "upgrade"), ("Upgrade", "websocket")];
    let answer = gateway.connect().request("GET", "/a/3", &asked, b"");
    assert_eq!(answer.json()["headers"]["upgrade"].as_str(), None, "no upgrade is requested: {}", answer.text());
}
