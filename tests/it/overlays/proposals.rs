//! The overlay that `check` proposes.

use std::process::Command;

use crate::overlays::replay;
use crate::support::gateway::{Gateway, TOLLGATE};
use crate::support::upstream::Upstream;

#[test]
fn check_prints_one_overlay_below_the_problems() {
    replay(
        "\
== application.yml
spring.cloud.gateway.server.webflux:
  routes:
  - {id: orders, uri: 'lb://orders', predicates: [Path=/orders/**], filters: [MyLogging]}
  - {id: bills, uri: 'lb://orders', predicates: [Path=/bills/**]}
$ tollgate check application.yml 2>&1 | grep -E '^(application|# Save|upstreams|filter-beans)'
application.yml:3:23: error: unknown upstream `orders` (2 times)
application.yml:3:79: error: unknown filter `MyLogging`
# Save this as overlay.yaml, correct the values, and use it:
upstreams:
filter-beans:
$ tollgate check application.yml --overlay; echo $?
# Save this as overlay.yaml, correct the values, and use it:
#   tollgate check application.yml --config overlay.yaml
#   tollgate --config application.yml --config overlay.yaml
upstreams:
  orders: {endpoints: [\"${ORDERS_URL:http://orders:8080}\"]} # or `dns: {name: orders, port: 8080}`
filter-beans:
  MyLogging: skip # or `{use: NAME, args: {…}}` with a filter of the gateway
0
$ tollgate check application.yml --overlay > overlay.yaml; tollgate check application.yml --config overlay.yaml
overlay.yaml:7:3: note: the filter `MyLogging` is left out, in 1 list of filters
  7 |   MyLogging: skip # or `{use: NAME, args: {…}}` with a filter of the gateway
    |   ^
application.yml, overlay.yaml: ok, 2 routes
$ tollgate check application.yml --config overlay.yaml --overlay
application.yml, overlay.yaml: nothing that an overlay could add is missing
",
    );
}

#[test]
fn a_proposed_overlay_serves_requests() {
    let orders = Upstream::ok("orders");
    let yaml = "\
spring.cloud.gateway.server.webflux.routes:
- id: orders
  uri: lb://ORDERS
  predicates: [Path=/orders/**]
  filters:
  - TokenRelay=
  - JwtAuthenticationFilter
  - {name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 1, redis-rate-limiter.burstCapacity: 120, redis-rate-limiter.requestedTokens: 60, key-resolver: '#{@ipKeyResolver}'}}
";
    let folder = tempfile::tempdir().unwrap();
    let (file, overlay) = (folder.path().join("application.yml"), folder.path().join("overlay.yaml"));
    std::fs::write(&file, yaml).unwrap();
    let output = Command::new(TOLLGATE).arg("check").arg(&file).arg("--overlay").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The endpoint is a placeholder with the usual address as its default.
    let text = String::from_utf8(output.stdout).unwrap().replace("${ORDERS_URL:http://orders:8080}", &orders.uri());
    std::fs::write(&overlay, text).unwrap();
    let gateway = Gateway::start_over(yaml, &[&overlay]);
    let statuses: Vec<u16> = (0..3).map(|_| gateway.get("/orders/1").status).collect();
    assert_eq!(statuses, [200, 200, 429], "{}", gateway.log());
}

#[test]
#[cfg(feature = "jwt")]
fn a_stand_in_with_tokens_refuses_requests_without_one() {
    use crate::support::tokens::{Signer, jwks};
    let folder = tempfile::tempdir().unwrap();
    let (keys, signer) = (folder.path().join("keys.json"), Signer::es256("a"));
    std::fs::write(&keys, jwks(&[&signer])).unwrap();
    let overlay = folder.path().join("overlay.yaml");
    std::fs::write(
        &overlay,
        format!(
            "filter-beans: {{JwtAuthenticationFilter: {{use: jwt}}}}\ntollgate: {{jwt: {{jwks: '{}', audience: api}}}}\n",
            keys.display()
        ),
    )
    .unwrap();
    let yaml = "spring.cloud.gateway.routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: [JwtAuthenticationFilter]}]\n";
    let gateway = Gateway::start_over(yaml, &[&overlay]);
    assert_eq!(gateway.get("/a").status, 401);
    let bad = [("authorization", "Bearer nonsense")];
    assert_eq!(gateway.connect().request("GET", "/a", &bad, b"").status, 401);
    let token = format!("Bearer {}", signer.token(&serde_json::json!({"sub": "ada", "aud": "api"})));
    assert_eq!(gateway.connect().request("GET", "/a", &[("authorization", &token)], b"").status, 200);
}
