//! CORS: preflights, refusals, and headers for browsers.

use crate::support::client::Response;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

const SHOP: (&str, &str) = ("Origin", "https://shop.example");
const EVIL: (&str, &str) = ("Origin", "https://evil.example");
const ASKS_POST: (&str, &str) = ("Access-Control-Request-Method", "POST");
const ASKS_GET: (&str, &str) = ("Access-Control-Request-Method", "GET");
const VARIES: [&str; 3] = ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"];

fn upstream() -> Upstream {
    Upstream::start(|request| {
        let own = [("Access-Control-Allow-Origin", "*"), ("Vary", "Accept"), ("Vary", "Origin")];
        let headers = if request.target().ends_with("/own") { &own[..] } else { &[] };
        response(200, headers, b"from the upstream")
    })
}

fn ask(gateway: &Gateway, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    gateway.connect().request(method, path, headers, b"")
}

/// `Access-Control-Allow-Origin`, and the status.
fn outcome(answer: &Response) -> (u16, Vec<&str>) {
    (answer.status, answer.all("access-control-allow-origin"))
}

#[test]
fn spring_cors_configurations_apply_by_path() {
    let upstream = upstream();
    let uri = upstream.uri();
    let gateway = Gateway::start(&format!(
        r#"
spring:
  cloud:
    gateway:
      globalcors:
        cors-configurations:
          '[/open/**]': {{allowedOrigins: "*", allowedMethods: [GET, POST], allowedHeaders: "*", maxAge: 1800}}
          '[/**]':
            allowed-origins: ["https://shop.example"]
            allowed-origin-patterns: ["https://*.partner.example:[443,8443]"]
            allowed-methods: [GET, POST]
            allowed-headers: [X-A]
            exposed-headers: [X-B, X-C]
            allow-credentials: true
      routes:
        - id: meta
          uri: {uri}
          predicates: [Path=/meta/**]
          metadata: {{cors: {{allowedOrigins: 'https://meta.example/', allowedMethods: ['*'], maxAge: 30}}}}
        - {{id: limited, uri: '{uri}', predicates: [Path=/limited/**], filters: [{{name: RequestRateLimiter, args: {{replenish-rate: 1, burst-capacity: 1, period: 1h, key-resolver: ip}}}}]}}
        - {{id: get, uri: '{uri}', predicates: [Path=/get/**, Method=GET]}}
        - {{id: all, uri: '{uri}', predicates: ['Path=/all/**,/open/**']}}
"#
    ));

    let preflight =
        ask(&gateway, "OPTIONS", "/all/x", &[SHOP, ASKS_POST, ("Access-Control-Request-Headers", "x-a, x-z")]);
    assert_eq!((preflight.status, preflight.text().as_str()), (200, ""));
    for (name, value) in [
        ("access-control-allow-origin", "https://shop.example"),
        ("access-control-allow-methods", "GET,POST"),
        ("access-control-allow-headers", "x-a"),
        ("access-control-expose-headers", "X-B, X-C"),
        ("access-control-allow-credentials", "true"),
    ] {
        assert_eq!(preflight.all(name), [value], "{name}");
    }
    assert_eq!((preflight.all("vary"), preflight.header("access-control-max-age")), (VARIES.to_vec(), None));

    for (method, path, headers, expected) in [
        ("GET", "/all/x", &[SHOP][..], (200, vec!["https://shop.example"])),
        (
            "GET",
            "/all/x",
            &[("Origin", "https://a.partner.example:8443")],
            (200, vec!["https://a.partner.example:8443"]),
        ),
        ("GET", "/all/x", &[], (200, vec![])),
        ("GET", "/all/x", &[("Origin", "http://localhost")], (200, vec![])), // the same origin
        ("GET", "/all/x", &[EVIL], (403, vec![])),
        ("DELETE", "/all/x", &[SHOP], (403, vec![])),
        ("OPTIONS", "/all/x", &[EVIL, ASKS_GET], (403, vec![])),
        ("OPTIONS", "/all/x", &[SHOP, ("Access-Control-Request-Method", "DELETE")], (403, vec![])),
        ("OPTIONS", "/all/x", &[SHOP, ASKS_GET, ("Access-Control-Request-Headers", "x-z")], (403, vec![])),
        ("OPTIONS", "/open/x", &[EVIL, ASKS_GET], (200, vec!["*"])),
        ("GET", "/open/x", &[EVIL], (200, vec!["*"])),
        // The route's own policy precedes the global ones.
        ("GET", "/meta/x", &[("Origin", "https://meta.example")], (200, vec!["https://meta.example"])),
        ("OPTIONS", "/meta/x", &[("Origin", "https://meta.example"), ASKS_POST], (200, vec!["https://meta.example"])),
        ("GET", "/meta/x", &[SHOP], (403, vec![])),
        // A preflight does not match `Method=GET`, as in Spring.
        ("OPTIONS", "/get/x", &[SHOP, ASKS_GET], (404, vec![])),
        ("GET", "/get/x", &[SHOP], (200, vec!["https://shop.example"])),
    ] {
        let answer = ask(&gateway, method, path, headers);
        assert_eq!(outcome(&answer), expected, "{method} {path} {headers:?}");
        if answer.status != 404 {
            assert_eq!(answer.all("vary"), VARIES, "{method} {path} {headers:?}");
        }
    }
    assert_eq!(
        ask(&gateway, "OPTIONS", "/meta/x", &[("Origin", "https://meta.example"), ASKS_POST])
            .header("access-control-max-age"),
        Some("30")
    );

    // Fields of the upstream follow, as in Spring.
    let own = ask(&gateway, "GET", "/all/own", &[SHOP]);
    assert_eq!(own.all("access-control-allow-origin"), ["https://shop.example", "*"]);
    assert_eq!(own.all("vary"), [VARIES.as_slice(), &["Accept"]].concat());

    // A limiter does not see preflights, and a browser may read a 429.
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "OPTIONS", "/limited/x", &[SHOP, ASKS_GET]).status, 200);
    }
    assert_eq!(ask(&gateway, "GET", "/limited/x", &[SHOP]).status, 200);
    assert_eq!(outcome(&ask(&gateway, "GET", "/limited/x", &[SHOP])), (429, vec!["https://shop.example"]));
    assert!(upstream.requests().iter().all(|request| !request.line.starts_with("OPTIONS")));
}

#[test]
fn a_spring_file_that_allows_credentials_for_every_origin_lets_no_site_read_responses() {
    let upstream = upstream();
    let policy = "{allowedOrigins: 'ORIGINS', allowedMethods: '*', allowCredentials: true}";
    let route = format!("{{id: a, uri: '{}', predicates: [Path=/**], ", upstream.uri());
    let global = format!(
        "spring.cloud.gateway:\n  globalcors.cors-configurations: {{'[/**]': {policy}}}\n  routes: [{route}}}]\n"
    );
    let local = format!("spring.cloud.gateway.routes: [{route}metadata: {{cors: {policy}}}}}]\n");
    let gateway = Gateway::start(&global.replace("ORIGINS", "*"));
    for text in [global, local] {
        for (origins, allowed) in [("*", None), ("*,https://shop.example", Some(SHOP.1))] {
            gateway.reload(&text.replace("ORIGINS", origins));
            assert_eq!(outcome(&ask(&gateway, "GET", "/x", &[EVIL])), (403, vec![]), "{text}");
            assert_eq!(outcome(&ask(&gateway, "OPTIONS", "/x", &[EVIL, ASKS_GET])), (403, vec![]));
            assert_eq!(outcome(&ask(&gateway, "GET", "/x", &[])), (200, vec![]), "no cross-origin request");
            let shop = ask(&gateway, "GET", "/x", &[SHOP]);
            let expected = allowed.map_or((403, vec![]), |origin| (200, vec![origin]));
            assert_eq!(outcome(&shop), expected);
            assert_eq!(shop.header("access-control-allow-credentials"), allowed.map(|_| "true"));
        }
    }
}

#[test]
fn preflights_without_a_route_are_answered_if_configured() {
    let upstream = upstream();
    let uri = upstream.uri();
    let route =
        |more: &str| format!("routes: [{{id: a, uri: '{uri}', predicates: ['Path=/a/**,/b/**', Method=GET]{more}}}]");
    let spring = format!(
        "globalcors: {{add-to-simple-url-handler-mapping: true, cors-configurations: {{'[/**]': {{allowed-origins: \
         'https://shop.example'}}}}}}\n{}",
        route("")
    );
    let gateway = Gateway::start(&spring);
    for yaml in [
        spring,
        format!("cors: {{allowed-origins: ['https://shop.example']}}\n{}", route("")),
        route(", cors: {allowed-origins: ['https://shop.example']}"),
    ] {
        gateway.reload(&yaml);
        for path in ["/a/x", "/b/x"] {
            let shop = vec!["https://shop.example"];
            assert_eq!(outcome(&ask(&gateway, "OPTIONS", path, &[SHOP, ASKS_GET])), (200, shop.clone()), "{yaml}");
            assert_eq!(ask(&gateway, "OPTIONS", path, &[EVIL, ASKS_GET]).status, 403);
            assert_eq!(outcome(&ask(&gateway, "GET", path, &[SHOP])), (200, shop));
        }
        // A request without a route stays 404, and a browser may read it.
        let missing = ask(&gateway, "GET", "/c", &[]);
        assert_eq!((missing.status, missing.text().as_str()), (404, "Not Found: no route matches\n"));
    }
    // Without a policy the upstream answers preflights itself.
    gateway.reload(&route("").replace(", Method=GET", ""));
    assert_eq!(ask(&gateway, "OPTIONS", "/a/x", &[SHOP, ASKS_GET]).text(), "from the upstream");
}

/// Answers with CORS fields of its own, for any origin.
fn permissive_upstream() -> Upstream {
    let own = [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Expose-Headers", "X-Upstream"),
        ("Access-Control-Allow-Methods", "PATCH"),
        ("Access-Control-Allow-Headers", "X-Upstream"),
        ("Access-Control-Max-Age", "9"),
        ("Access-Control-Allow-Private-Network", "true"),
        ("Vary", "Accept"),
    ];
    Upstream::start(move |_| response(200, &own, b"from the upstream"))
}

fn access_control(answer: &Response) -> Vec<(String, String)> {
    let fields = answer.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    fields.filter(|(name, _)| name.starts_with("access-control-")).collect()
}

#[test]
fn the_policy_replaces_the_fields_of_the_upstream_in_our_own_form() {
    let upstream = permissive_upstream();
    let uri = upstream.uri();
    let policy = "allowed-origins: ['https://shop.example'], exposed-headers: [X-Own]";
    let gateway = Gateway::start(&format!(
        "cors: {{{policy}}}\nroutes:\n  - {{id: edited, uri: '{uri}', predicates: [Path=/edited], filters: \
         ['AddResponseHeader=Access-Control-Expose-Headers, X-Added']}}\n  - {{id: a, uri: '{uri}', predicates: [Path=/**]}}"
    ));
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let of_policy =
        [field("access-control-allow-origin", "https://shop.example"), field("access-control-expose-headers", "X-Own")];
    let mut answer = access_control(&ask(&gateway, "GET", "/x", &[SHOP]));
    answer.sort();
    assert_eq!(answer, of_policy);
    assert_eq!(ask(&gateway, "GET", "/x", &[SHOP]).all("vary"), [VARIES.as_slice(), &["Accept"]].concat());
    // Requests without an origin, and those of the same origin.
    for headers in [&[][..], &[("Origin", "http://localhost")]] {
        assert_eq!(access_control(&ask(&gateway, "GET", "/x", headers)), [], "{headers:?}");
    }
    // A filter has the last word.
    let edited = ask(&gateway, "GET", "/edited", &[SHOP]);
    assert_eq!(edited.all("access-control-expose-headers"), ["X-Own", "X-Added"]);
    // Paths without a policy keep the upstream's fields.
    gateway.reload(&format!(
        "routes: [{{id: shop, uri: '{uri}', predicates: [Path=/shop/**], cors: {{{policy}}}}}, \
         {{id: open, uri: '{uri}', predicates: [Path=/open/**]}}]"
    ));
    assert_eq!(outcome(&ask(&gateway, "GET", "/shop/x", &[SHOP])), (200, vec!["https://shop.example"]));
    assert_eq!(outcome(&ask(&gateway, "GET", "/open/x", &[SHOP])), (200, vec!["*"]));
}

#[test]
fn the_documented_dedupe_filter_leaves_one_origin() {
    let upstream = permissive_upstream();
    let text = include_str!("../../docs/reference/filters/DedupeResponseHeader.md");
    let filter = text.lines().find_map(|line| line.trim().strip_prefix("- DedupeResponseHeader=")).unwrap();
    let gateway = Gateway::start(&format!(
        "spring.cloud.gateway:\n  globalcors.cors-configurations: {{'[/**]': {{allowed-origins: ['https://shop.example'], \
         allow-credentials: true}}}}\n  routes:\n    - {{id: a, uri: '{}', predicates: [Path=/**], filters: \
         ['DedupeResponseHeader={filter}']}}",
        upstream.uri()
    ));
    let answer = ask(&gateway, "GET", "/x", &[SHOP]);
    assert_eq!(outcome(&answer), (200, vec!["https://shop.example"]));
    assert_eq!(answer.all("access-control-allow-credentials"), ["true"]);
}
