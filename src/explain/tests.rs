#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::explain::model::CorsVerdict;
use crate::explain::*;
use tollgate_config::{SecretValues, parse};

fn explained(yaml: &str, method: &str, url: &str, fields: &[(&str, &str)]) -> Explanation {
    let config = parse("test.yaml", yaml, &|_| None).unwrap_or_else(|problems| panic!("{problems}")).config;
    let mut request = Request::builder().method(method).uri(url).header("host", "gw.example:8080");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let head = request.body(()).unwrap().into_parts().0;
    explain(
        &config,
        &SecretValues::NONE,
        DryRunRequest { head, peer: [10, 0, 0, 7].into(), certificate: None, chance: 0 },
    )
    .unwrap()
}

const ROUTES: &str = "
redis: {host: redis}
default-filters: ['AddRequestHeader=X-Default, d']
routes:
- {id: posts, uri: 'http://a', predicates: [Path=/orders/**, Method=POST]}
- {id: hosted, uri: 'http://a', predicates: [Host=other.example, Path=/orders/**]}
- id: orders
  uri: http://orders:9000
  predicates: ['Path=/api/{kind}/**']
  filters:
    - StripPrefix=1
    - SetRequestHeader=X-Kind, {kind}
    - name: RequestRateLimiter
      args: {replenish-rate: 10, burst-capacity: 20, key-resolver: [ip, path]}
    - name: RequestRateLimiter
      args:
        key-resolver: header:X-Kind
        limits: [{name: a, replenish-rate: 1, burst-capacity: 5}, {name: b, algorithm: quota, allowance: 3}]
    - {name: ConcurrencyLimiter, args: {limit: 2, key-resolver: method}}
    - {name: RequestCounter, args: {key-resolver: 'header:X-Kind', bucket: all}}
- {id: away, uri: 'http://a', predicates: [Path=/away], filters: ['RedirectTo=302, https://b.example/']}
- id: dear
  uri: http://a
  predicates: [Path=/dear]
  filters: [{name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 5, key-resolver: ip, cost: 'header:X-Cost'}}]
";

#[test]
fn a_dry_run_shows_filters_and_the_request_to_the_upstream() {
    let explanation = explained(ROUTES, "GET", "/api/shoes//7?full=1", &[("connection", "x-gone"), ("x-gone", "1")]);
    let passed = explanation.passed_over.iter().map(|passed| (&*passed.route, &*passed.predicate, &*passed.seen));
    assert_eq!(
        passed.collect::<Vec<_>>(),
        [
            ("posts", "Path=/orders/**", "the path is `/api/shoes/7`"),
            ("hosted", "Host=other.example", "the host is `gw.example:8080`")
        ]
    );
    let route = explanation.route.unwrap();
    assert_eq!((&*route.id, &*route.variables["kind"]), ("orders", "shoes"));
    let forwarded = route.forwarded.unwrap();
    assert_eq!(forwarded.url, "http://orders:9000/shoes/7?full=1");
    for (name, value) in [("host", "orders:9000"), ("x-default", "d"), ("x-kind", "shoes")] {
        assert_eq!(forwarded.headers[name], [value], "{name}");
    }
    assert!(!forwarded.headers.contains_key("x-gone"));
    assert_eq!(route.filters[0].filter, "AddRequestHeader=X-Default, d");
}

#[test]
fn limiters_show_the_keys_that_they_count_after_earlier_filters() {
    let route = explained(ROUTES, "GET", "/api/shoes", &[]).route.unwrap();
    let counted: Vec<_> = route.filters.iter().map(|trace| &trace.counted).collect();
    assert_eq!(counted[3][0].rule, "token-bucket, 10 per 1s, burst 20");
    assert!(counted[3][0].key_id.contains("10.0.0.7") && counted[3][0].key_id.contains("/shoes"), "{counted:?}");
    assert!(counted[3][0].redis_keys[0].starts_with("request_rate_limiter.{orders."), "{counted:?}");
    let scopes: Vec<_> = counted[4].iter().map(|counted| (&*counted.scope, &*counted.key_id, counted.cost)).collect();
    assert_eq!(scopes, [("orders#2#a", "shoes", 1), ("orders#2#b", "shoes", 1)]);
    assert_eq!(counted[4][1].redis_keys, ["rules.{orders#2.shoes}", "quota.{orders#2.shoes}.b"].map(encoded));
    assert_eq!(counted[5][0].redis_keys, ["concurrency_limiter.{orders.GET}.leases"]);
    assert_eq!((&*counted[6][0].scope, &*counted[6][0].key_id), ("all", "shoes"));
}

#[test]
fn redis_keys_are_shown_as_they_are() {
    let yaml = "
redis: {host: redis}
routes:
- id: a
  uri: 'http://a'
  predicates: [Path=/**]
  filters:
    - name: RequestRateLimiter
      args: {replenish-rate: 1, burst-capacity: 5, key-resolver: 'header:x-key'}
";
    for (key, id) in [("dGVzdA==", "dGVzdA=="), ("a b|c+d", "a b|c+d"), ("a}b", "#a%7Db")] {
        let explanation = explained(yaml, "GET", "/", &[("x-key", key)]);
        let text = explanation.to_string();
        let names = ["tokens", "timestamp"].map(|word| format!("request_rate_limiter.{{a.{id}}}.{word}"));
        assert!(names.iter().all(|name| text.contains(&format!("Redis key: {name}\n"))), "{text}");
        assert_eq!(explanation.route.unwrap().filters[0].counted[0].redis_keys, names);
    }
}

/// Encodes `#`, as Redis keys do.
fn encoded(name: &str) -> String {
    name.replace('#', "%23")
}

#[test]
fn responses_of_filters_and_of_the_gateway_are_shown() {
    let away = explained(ROUTES, "GET", "/away", &[]).route.unwrap();
    assert_eq!(away.answered, Some(LocalResponse { status: 302, reason: "redirect".to_owned() }));
    assert_eq!(away.forwarded, None);
    let dear = explained(ROUTES, "GET", "/dear", &[("x-cost", "6")]).route.unwrap();
    assert_eq!(dear.answered.unwrap().status, 429);
    assert_eq!(dear.filters[1].counted[0].cost, 6);
    let dear = explained(ROUTES, "GET", "/dear", &[("x-cost", "5")]).route.unwrap();
    assert!(dear.forwarded.is_some());

    assert_eq!(explained(ROUTES, "GET", "/nowhere", &[]).route, None);
    let refused = explained(ROUTES, "GET", "/../up", &[]).refused.unwrap();
    assert!(refused.starts_with("bad-request: "), "{refused}");
}

#[test]
fn predicates_see_the_client_address_of_a_trusted_proxy() {
    let yaml = "
server: {forward-headers-strategy: framework}
trusted-proxies: [10.0.0.0/8]
routes: [{id: a, uri: 'http://a', predicates: [RemoteAddr=192.0.2.0/24]}]
";
    let matches = |fields: &[_]| explained(yaml, "GET", "/", fields).route.is_some();
    assert!(matches(&[("x-forwarded-for", "192.0.2.7")]) && !matches(&[]));
}

#[test]
fn the_text_has_one_line_per_step() {
    let text = explained(ROUTES, "GET", "/away", &[]).to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "skipped posts: Path=/orders/** does not match: the path is `/away`");
    assert_eq!(lines[3], "route away: Path=/away", "{text}");
    assert_eq!(lines[4..6], ["  1. AddRequestHeader=X-Default, d", "  2. RedirectTo=302, https://b.example/"]);
    assert_eq!(lines[6], "response of a filter: 302 (redirect)");
    assert!(explained(ROUTES, "GET", "/nowhere", &[]).to_string().ends_with("no route matches: 404\n"));
}

#[test]
fn limiters_are_tables_and_observed_rules_are_marked() {
    let yaml = "
routes:
- id: a
  uri: 'http://a'
  predicates: [Path=/**]
  filters:
    - name: RequestRateLimiter
      args:
        key-resolver: ip
        limits: [{name: day, algorithm: quota, allowance: 30}, {name: burst, replenish-rate: 1, burst-capacity: 5, mode: observe}]
    - {name: RequestCounter, args: {key-resolver: ip}}
";
    let explanation = explained(yaml, "GET", "/", &[]);
    let text = explanation.to_string();
    let expected = "  1. RequestRateLimiter
       key-resolver              ip
       limits[0].name            day
       limits[0].algorithm       quota
       limits[0].allowance       30
       limits[1].name            burst
       limits[1].replenish-rate  1
       limits[1].burst-capacity  5
       limits[1].mode            observe
       BUCKET   KEY       COST  LIMIT                            MODE
       a#day    10.0.0.7     1  quota, 30 in total               enforced
       a#burst  10.0.0.7     1  token-bucket, 1 per 1s, burst 5  observed
";
    assert!(text.contains(expected), "{text}");
    let observed = explanation.route.unwrap().filters[0].counted.iter().map(|key| key.observed).collect::<Vec<_>>();
    assert_eq!(observed, [false, true]);
}

#[test]
fn cors_policies_judge_the_origin_the_method_and_preflights() {
    let yaml = "
trusted-proxies: [10.0.0.0/8]
globalcors:
  cors-configurations:
    '[/shop/**]': {allowed-origins: ['https://shop.example'], allowed-methods: [GET, PUT], allowed-headers: [x-a]}
routes: [{id: a, uri: 'http://a', predicates: [Path=/**]}]
";
    let origin = ("origin", "https://shop.example");
    let judged = |method: &str, path: &str, fields: &[(&str, &str)]| {
        let explanation = explained(yaml, method, path, fields);
        let answered = explanation.route.and_then(|route| route.answered).map(|response| response.status);
        (explanation.cors.map(|cors| (cors.policy, cors.verdict)), answered)
    };
    let policy = |verdict| Some((Some("/shop/**".to_owned()), verdict));
    assert_eq!(judged("GET", "/shop/1", &[]), (None, None));
    assert_eq!(judged("GET", "/other", &[origin]), (Some((None, CorsVerdict::NoPolicy)), None));
    assert_eq!(judged("PUT", "/shop/1", &[origin]), (policy(CorsVerdict::Allowed), None));
    assert_eq!(judged("DELETE", "/shop/1", &[origin]), (policy(CorsVerdict::RefusedMethod), Some(403)));
    let evil = ("origin", "https://evil.example");
    assert_eq!(judged("GET", "/shop/1", &[evil]), (policy(CorsVerdict::RefusedOrigin), Some(403)));
    let put = ("access-control-request-method", "PUT");
    assert_eq!(judged("OPTIONS", "/shop/1", &[origin, put]), (policy(CorsVerdict::Preflight), Some(200)));
    let fields = ("access-control-request-headers", "x-b");
    assert_eq!(judged("OPTIONS", "/shop/1", &[origin, put, fields]), (policy(CorsVerdict::RefusedHeaders), Some(403)));
    // A page of the gateway itself is no other origin, with the protocol that a trusted proxy reports.
    let same = [("origin", "https://gw.example:8080"), ("x-forwarded-proto", "https")];
    assert_eq!(judged("GET", "/shop/1", &same), (policy(CorsVerdict::Allowed), None));
    let text = explained(yaml, "PUT", "/shop/1", &[origin]).to_string();
    assert!(text.contains("allowed\n  access-control-allow-origin: https://shop.example\nroute a"), "{text}");
}

#[test]
fn a_request_for_the_locator_names_it_and_the_running_gateway() {
    let yaml = "spring.cloud:\n  consul.host: consul\n  gateway:\n    discovery.locator.enabled: true\n    \
                routes: [{id: a, uri: 'http://a', predicates: [Path=/a/**]}]\n";
    let explanation = explained(yaml, "GET", "/orders/1", &[]);
    assert!(explanation.lacks_locator_routes);
    let text = explanation.to_string();
    assert!(text.contains("`discovery.locator`") && text.contains("--live"), "{text}");
    let matched = explained(yaml, "GET", "/a/1", &[]);
    assert!(!matched.lacks_locator_routes && !matched.to_string().contains("locator"), "{matched}");
    let without = explained(&yaml.replace("true", "false"), "GET", "/orders/1", &[]);
    assert!(without.to_string().ends_with("no route matches: 404\n"));
}
