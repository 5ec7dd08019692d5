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
application.yml:3:23: warning: unknown upstream `orders` and no registry: its requests get 503, as in Spring (2 times)
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
application.yml, overlay.yaml: no missing parts for an overlay
$ cp application.yml other.yml; tollgate check application.yml other.yml --overlay | grep -cE '^(upstreams|filter-beans)'
2
$ tollgate check application.yml --profile prod --overlay | grep -A1 check
#   tollgate check application.yml --config overlay.yaml --profile prod
#   tollgate --config application.yml --config overlay.yaml --profile prod
",
    );
}

#[test]
fn placeholders_without_a_value_are_in_the_overlay_and_secrets_are_not_guessed() {
    replay(
        "\
== application.yml
spring:
  data.redis: {host: '${CACHE_HOST}', port: '${cache.port}'}
  cloud.gateway.routes:
  - {id: a, uri: 'lb://${ORDERS}', predicates: ['Path=/${STAGE}/**'], filters: ['AddRequestHeader=X-Stage, ${STAGE}']}
  - {id: b, uri: 'http://${BILLS_HOST}:${BILLS_PORT}', predicates: [Path=/b/**]}
  - {id: c, uri: '@catalogue.url@', predicates: [Path=/c/**]}
$ tollgate check application.yml 2>&1 | grep 'error:'
application.yml:2:22: error: `${CACHE_HOST}` is not set and has no default
application.yml:2:45: error: `${cache.port}` is not set and has no default
application.yml:4:18: error: `${ORDERS}` is not set and has no default
application.yml:4:49: error: `${STAGE}` is not set and has no default (2 times)
application.yml:5:18: error: `${BILLS_HOST}` is not set and has no default
application.yml:6:18: error: `@catalogue.url@` is a placeholder of the application's build
$ tollgate check application.yml --overlay > overlay.yaml; echo $?
0
$ cat overlay.yaml
# Save this as overlay.yaml, correct the values, and use it:
#   tollgate check application.yml --config overlay.yaml
#   tollgate --config application.yml --config overlay.yaml
BILLS_HOST: bills # an example; BILLS_HOST in the environment wins
BILLS_PORT: 8080 # an example; BILLS_PORT in the environment wins
CACHE_HOST: cache # an example; CACHE_HOST in the environment wins
ORDERS: orders # an example; ORDERS in the environment wins
STAGE: stage # an example; STAGE in the environment wins
cache.port: 6379 # an example; CACHE_PORT in the environment wins
catalogue.url: http://catalogue:8080 # an example; CATALOGUE_URL in the environment wins
upstreams:
  orders: {endpoints: [\"${ORDERS_URL:http://orders:8080}\"]} # or `dns: {name: orders, port: 8080}`
$ tollgate check application.yml --config overlay.yaml 2>&1 | tail -1
application.yml, overlay.yaml: ok, 3 routes
$ STAGE=live tollgate explain application.yml GET /live/1 --config overlay.yaml | grep -ci 'x-stage: live'
1
$ CATALOGUE_URL=http://elsewhere tollgate explain application.yml GET /c/1 --config overlay.yaml | grep -c http://elsewhere
1
$ tollgate migrate application.yml --config overlay.yaml --out own.yaml; tollgate check own.yaml
own.yaml: ok, 3 routes
== secret.yml
spring:
  data.redis: {host: '${CACHE_HOST}', password: '@redis.pass@'}
  cloud.gateway.routes: ['a=http://a,Path=/**']
$ tollgate check secret.yml --overlay 2>/dev/null; echo $?
# Save this as overlay.yaml, correct the values, and use it:
#   tollgate check secret.yml --config overlay.yaml
#   tollgate --config secret.yml --config overlay.yaml
CACHE_HOST: cache # an example; CACHE_HOST in the environment wins
# redis.pass: # a secret: set REDIS_PASS in the environment
1
$ tollgate check secret.yml --overlay > overlay.yaml 2>/dev/null; REDIS_PASS=x tollgate check secret.yml -c overlay.yaml 2>/dev/null
secret.yml, overlay.yaml: ok, 1 route
== own.yaml
routes: [{id: a, uri: '${A_URL}', predicates: [Path=/**]}]
$ tollgate check own.yaml --overlay 2>/dev/null; echo $?
1
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

#[test]
fn a_stand_in_for_a_controller_is_a_route_of_the_overlay() {
    replay(
        "\
== application.yml
spring.cloud.gateway.routes:
- {id: a, uri: 'http://a', predicates: [Path=/a/**], filters: [{name: CircuitBreaker, args: {name: a, fallbackUri: 'forward:/fallback/a'}}]}
$ tollgate check application.yml --overlay > overlay.yaml; grep -v '^#' overlay.yaml
tollgate:
  routes:
  - {id: \"stand-in-fallback-a\", uri: \"no://op\", predicates: [\"Path=/fallback/a\"], filters: [SetStatus=503]} # for a controller of the application, which does not exist here
$ tollgate check application.yml --config overlay.yaml 2>&1 | tail -1
application.yml, overlay.yaml: ok, 2 routes
$ tollgate check application.yml --config overlay.yaml --overlay
application.yml, overlay.yaml: no missing parts for an overlay
",
    );
}
