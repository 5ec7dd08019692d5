//! Requests of clients never reach the admin port through the gateway, where a request of this host needs no token.

use tollgate_test_support::registry::ConsulServer;

use crate::support::client::Response;
use crate::support::eventually;
use crate::support::gateway::Gateway;

/// Ways to choose the target of a request: by a header, by the path, behind a forward, a fallback and a denial.
const ROUTES: &str = "
routes:
  - {id: named, uri: 'no://op', predicates: [Path=/named], filters: [RequestHeaderToRequestUri=X-Target]}
  - {id: set, uri: 'no://op', predicates: ['Path=/set/{port}/**'], filters: ['SetRequestUri=http://127.0.0.1:{port}/api/reload']}
  - {id: echo, uri: 'echo:', predicates: [Path=/echo], filters: [RequestHeaderToRequestUri=X-Target]}
  - {id: forward, uri: 'forward:/named', predicates: [Path=/forward]}
  - {id: both, uri: 'forward:/last', predicates: [Path=/both], filters: [RequestHeaderToRequestUri=X-Target]}
  - {id: last, uri: 'no://op', predicates: [Path=/last], filters: [RequestHeaderToRequestUri=X-None]}
  - {id: denied, uri: 'no://op', predicates: [Path=/denied], filters: [{name: RequestRateLimiter, args: {replenish-rate: 1,
     burst-capacity: 0, key-resolver: ip, on-limit: 'forward:/named'}}]}
  - {id: broken, uri: 'http://127.0.0.1:1', predicates: [Path=/broken], filters: [{name: CircuitBreaker, args: {name: b,
     fallbackUri: 'forward:/named'}}]}
";

fn reload_through(gateway: &Gateway, path: &str, target: &str) -> Response {
    gateway.connect().request("POST", path, &[("x-target", target)], b"")
}

#[test]
fn no_target_of_a_request_leads_to_the_admin_port() {
    let gateway = Gateway::start(ROUTES);
    let port = gateway.admin.port();
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "0.0.0.0", "[::ffff:127.0.0.1]", "127.1", "2130706433"] {
        let answer = reload_through(&gateway, "/named", &format!("http://{host}:{port}/api/reload"));
        assert_eq!(answer.status, 502, "{host}: {}", answer.text());
    }
    let target = format!("http://127.0.0.1:{port}/api/reload");
    for path in ["/forward", "/denied", "/broken"] {
        assert_eq!(reload_through(&gateway, path, &target).status, 502, "{path}");
    }
    assert_eq!(reload_through(&gateway, &format!("/set/{port}"), "").status, 502);
    // The target of the first route has no effect on `echo:` and on a forward without it.
    assert_eq!(reload_through(&gateway, "/echo", &target).status, 200);
    assert!(matches!(reload_through(&gateway, "/both", &target).status, 200 | 502));
    gateway.logged("the target is the admin port of the gateway itself");
    assert!(!gateway.log().contains("configuration reloaded"), "{}", gateway.log());
    // The admin port itself, for comparison.
    assert_eq!(gateway.connect_admin().request("POST", "/api/reload", &[], b"").status, 200);
    gateway.logged("configuration reloaded");
}

#[test]
fn no_upstream_leads_to_the_admin_port() {
    let gateway = Gateway::start(ROUTES);
    let admin = gateway.admin;
    gateway.reload(&format!(
        "upstreams: {{shop: {{endpoints: ['http://{admin}']}}}}\nroutes:\n\
         - {{id: fixed, uri: 'http://{admin}', predicates: [Path=/api/config]}}\n\
         - {{id: balanced, uri: 'lb://shop', predicates: [Path=/api/routes]}}\n"
    ));
    for path in ["/api/config", "/api/routes"] {
        assert_eq!(gateway.get(path).status, 502, "{path}: {}", gateway.log());
        assert_eq!(gateway.admin(path).status, 200);
    }
}

#[test]
fn no_registry_leads_to_the_admin_port() {
    let consul = ConsulServer::start();
    let registry = format!("consul: {{host: 127.0.0.1, port: {}}}", consul.address.port());
    let route = "routes: [{id: a, uri: 'lb://shop', predicates: [Path=/api/**]}]";
    let gateway = Gateway::start(&format!("{registry}\n{route}\n"));
    assert_eq!(gateway.get("/api/config").status, 503, "no endpoint yet");
    consul.register("shop", "self", gateway.admin, serde_json::Value::Null);
    eventually("the endpoint is known", || gateway.get("/api/config").status != 503);
    assert_eq!(gateway.get("/api/config").status, 502, "{}", gateway.log());
    assert_eq!(reload_through(&gateway, "/api/reload", "").status, 502);
    gateway.logged("the target is the admin port of the gateway itself");
    assert!(!gateway.log().contains("configuration reloaded"), "{}", gateway.log());
}

#[test]
fn an_admin_port_that_asks_for_a_token_asks_requests_through_the_gateway_too() {
    let gateway = Gateway::start(&format!("management: {{server: {{address: 0.0.0.0}}}}\n{ROUTES}"));
    let target = format!("http://127.0.0.1:{}/api/reload", gateway.admin.port());
    assert_eq!(reload_through(&gateway, "/named", &target).status, 401);
}
