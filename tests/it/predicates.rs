//! Every predicate with its corner cases, through a running gateway.

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// Routes by name with their predicates. Most have paths of their own.
const ROUTES: &[(&str, &str)] = &[
    ("exact", "Path=/exact"),
    ("glob", "Path=/glob/a?c/x*z"),
    ("segment", "'Path=/segment/{id}/end'"),
    ("regex", "'Path=/regex/{id:[a-z]+}'"),
    ("rest", "'Path=/rest/{*rest}'"),
    ("prefix", "Path=/prefix/**"),
    ("middle", "Path=/middle/**/end"),
    ("several", "'Path=/several/a, /several/b'"),
    ("slash", "'Path=/slash/{id},true'"),
    ("decoded", "Path=/decoded/a b"),
    ("case", "Path=/Case"),
    ("method", "Path=/method, 'Method=GET, put'"),
    ("header", r"Path=/header, 'Header=X-Id, \d+'"),
    ("header-any", "Path=/header-any, 'Header=X-Id'"),
    ("query", "Path=/query, 'Query=red, gree.'"),
    ("query-any", "Path=/query-any, 'Query=green'"),
    ("cookie", "Path=/cookie, 'Cookie=chocolate, ch.p'"),
    ("host", "Path=/host, 'Host=**.foo.org, {sub}.bar.org:80*'"),
    ("after", "Path=/after, 'After=2017-01-20T17:42:47.789-07:00[America/Denver]'"),
    ("after-late", "Path=/after-late, 'After=2999-01-20T17:42:47.789-07:00[America/Denver]'"),
    ("after-ms", "Path=/after-ms, 'After=1484958167789'"),
    ("before", "Path=/before, 'Before=2999-01-20T17:42:47.789+01:00[Europe/Berlin]'"),
    ("before-late", "Path=/before-late, 'Before=2017-01-20T17:42:47.789Z'"),
    ("between", "Path=/between, 'Between=2017-01-20T17:42:47Z, 2999-01-21T17:42:47Z'"),
    ("between-not", "Path=/between-not, 'Between=2998-01-20T17:42:47Z, 2999-01-21T17:42:47Z'"),
    ("peer", "Path=/peer, 'RemoteAddr=10.0.0.0/8, 127.0.0.9/24'"),
    ("peer-not", "Path=/peer-not, 'RemoteAddr=127.0.0.2'"),
    ("forwarded", "Path=/forwarded, 'XForwardedRemoteAddr=10.0.0.0/8'"),
    ("forwarded-2", "Path=/forwarded-2, {name: XForwardedRemoteAddr, args: {sources: 10.0.0.0/8, maxTrustedIndex: 2}}"),
    ("forwarded-peer", "Path=/forwarded-peer, 'XForwardedRemoteAddr=127.0.0.1'"),
    ("cloud-foundry", "Path=/cloud-foundry, 'CloudFoundryRouteService='"),
    ("version", "Path=/version, 'Version=1.3'"),
    ("version-later", "Path=/version-later, 'Version=1.1+'"),
    ("any", "{any: [Path=/any/a, {all: [Path=/any/b, Method=PUT]}]}"),
    ("not", "Path=/not/**, {not: {any: [Path=/not/a, 'Header=X-No']}}"),
    ("two", "Path=/two/**, Method=PUT"),
    ("two-too", "Path=/two/a"),
    ("weight-a", "Path=/weight, 'Weight=group, 1'"),
    ("weight-b", "Path=/weight, 'Weight=group, 1'"),
    ("weight-never", "Path=/weight, 'Weight=group, 0'"),
    ("weight-zero", "Path=/weight-zero, 'Weight=zeros, 0'"),
];

/// A method, a target, header fields, and the route that matches; `None` for no match.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)], Option<&'static str>);

const CASES: &[Case] = &[
    ("GET", "/exact", &[], Some("exact")),
    ("GET", "/exact/", &[], None),
    ("GET", "/exact;v=1", &[], Some("exact")),
    ("GET", "/ex%61ct", &[], Some("exact")),
    ("GET", "/case", &[], None),
    ("GET", "/Case", &[], Some("case")),
    ("GET", "/glob/abc/xyz", &[], Some("glob")),
    ("GET", "/glob/abbc/xyz", &[], None),
    ("GET", "/glob/abc/x%2Fz", &[], Some("glob")),
    ("GET", "/glob/abc/x/z", &[], None),
    ("GET", "/segment/1/end", &[], Some("segment")),
    ("GET", "/segment/a%2Fb/end", &[], Some("segment")),
    ("GET", "/segment/a/b/end", &[], None),
    ("GET", "/segment/1;m=2/end;n=3", &[], Some("segment")),
    ("GET", "/regex/abc", &[], Some("regex")),
    ("GET", "/regex/ab1", &[], None),
    ("GET", "/rest", &[], Some("rest")),
    ("GET", "/rest/a/b/", &[], Some("rest")),
    ("GET", "/resty", &[], None),
    ("GET", "/prefix", &[], Some("prefix")),
    ("GET", "/prefix/", &[], Some("prefix")),
    ("GET", "/prefix/a/b", &[], Some("prefix")),
    ("GET", "/prefixed", &[], None),
    ("GET", "/middle/end", &[], Some("middle")),
    ("GET", "/middle/a/end/b/end", &[], Some("middle")),
    ("GET", "/middle/a", &[], None),
    ("GET", "/several/b", &[], Some("several")),
    ("GET", "/slash/1/", &[], Some("slash")),
    ("GET", "/slash/", &[], None),
    ("GET", "/decoded/a%20b", &[], Some("decoded")),
    ("GET", "/decoded/a+b", &[], None),
    ("GET", "/method", &[], Some("method")),
    ("PUT", "/method", &[], Some("method")),
    ("OPTIONS", "/method", &[("Access-Control-Request-Method", "GET")], None),
    ("GET", "/header", &[("x-id", "17")], Some("header")),
    ("GET", "/header", &[("X-Id", "a, 17 ,b")], Some("header")),
    ("GET", "/header", &[("X-Id", "a"), ("X-Id", "17")], Some("header")),
    ("GET", "/header", &[("X-Id", "\"a,17,b\"")], None),
    ("GET", "/header", &[("X-Id", "17a")], None),
    ("GET", "/header", &[], None),
    ("GET", "/header-any", &[("X-Id", "x")], Some("header-any")),
    ("GET", "/header-any", &[("X-Id", " , ,")], None),
    ("GET", "/header-any", &[("X-Id", "")], None),
    ("GET", "/query?red=green", &[], Some("query")),
    ("GET", "/query?red=blue&red=greet", &[], Some("query")),
    ("GET", "/query?r%65d=gree%6E", &[], Some("query")),
    ("GET", "/query?red=greener", &[], None),
    ("GET", "/query?red", &[], None),
    ("GET", "/query-any?green", &[], Some("query-any")),
    ("GET", "/query-any?green=", &[], Some("query-any")),
    ("GET", "/query-any?blue=green", &[], None),
    ("GET", "/cookie", &[("Cookie", "a=b; chocolate=chip")], Some("cookie")),
    ("GET", "/cookie", &[("Cookie", "chocolate=chips")], None),
    ("GET", "/cookie", &[("Cookie", "Chocolate=chip")], None),
    ("GET", "/host", &[("Host", "www.foo.org")], Some("host")),
    ("GET", "/host", &[("Host", "foo.org")], Some("host")),
    ("GET", "/host", &[("Host", "www.foo.org:8080")], Some("host")),
    ("GET", "/host", &[("Host", "www.bar.org:9090")], None),
    ("GET", "/host", &[("Host", "www.Foo.org")], Some("host")),
    ("GET", "/host", &[("Host", "WWW.foo.org.")], Some("host")),
    ("GET", "/host", &[("Host", "www.foo.org.:80")], Some("host")),
    ("GET", "/host", &[("Host", "www.foo.org:443")], Some("host")),
    ("GET", "/host", &[("Host", "a.bar.org:8080")], Some("host")),
    ("GET", "/host", &[("Host", "a.b.bar.org:8080")], None),
    ("GET", "http://www.foo.org/host", &[("Host", "other.org")], Some("host")),
    ("GET", "/after", &[], Some("after")),
    ("GET", "/after-late", &[], None),
    ("GET", "/after-ms", &[], Some("after-ms")),
    ("GET", "/before", &[], Some("before")),
    ("GET", "/before-late", &[], None),
    ("GET", "/between", &[], Some("between")),
    ("GET", "/between-not", &[], None),
    ("GET", "/peer", &[("X-Forwarded-For", "192.0.2.1")], Some("peer")),
    ("GET", "/peer-not", &[], None),
    ("GET", "/forwarded", &[("X-Forwarded-For", "192.0.2.1, 10.0.0.1")], Some("forwarded")),
    ("GET", "/forwarded", &[("X-Forwarded-For", "10.0.0.1, 192.0.2.1")], None),
    ("GET", "/forwarded", &[("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-For", "10.0.0.2")], None),
    ("GET", "/forwarded", &[], None),
    ("GET", "/forwarded-2", &[("X-Forwarded-For", "10.0.0.1, 192.0.2.1")], Some("forwarded-2")),
    ("GET", "/forwarded-2", &[("X-Forwarded-For", "10.0.0.1")], Some("forwarded-2")),
    ("GET", "/forwarded-peer", &[], Some("forwarded-peer")),
    (
        "GET",
        "/forwarded-peer",
        &[("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-For", "10.0.0.2")],
        Some("forwarded-peer"),
    ),
    ("GET", "/forwarded-peer", &[("X-Forwarded-For", "10.0.0.1")], None),
    (
        "GET",
        "/cloud-foundry",
        &[("X-CF-Forwarded-Url", "a"), ("X-CF-Proxy-Signature", "b"), ("X-CF-Proxy-Metadata", "c")],
        Some("cloud-foundry"),
    ),
    ("GET", "/cloud-foundry", &[("X-CF-Forwarded-Url", "a"), ("X-CF-Proxy-Signature", "b")], None),
    ("GET", "/version", &[("X-Version", "1.3.0")], Some("version")),
    ("GET", "/version", &[("X-Version", "v1.3")], Some("version")),
    ("GET", "/version", &[("X-Version", "1.4")], None),
    ("GET", "/version", &[("X-Version", "one")], None),
    ("GET", "/version", &[], Some("version")),
    ("GET", "/version-later", &[("X-Version", "1.10")], Some("version-later")),
    ("GET", "/version-later", &[("X-Version", "1.0")], None),
    ("GET", "/any/a", &[], Some("any")),
    ("PUT", "/any/b", &[], Some("any")),
    ("GET", "/any/b", &[], None),
    ("GET", "/not/b", &[], Some("not")),
    ("GET", "/not/a", &[], None),
    ("GET", "/not/b", &[("X-No", "1")], None),
    ("PUT", "/two/a", &[], Some("two")),
    ("GET", "/two/a", &[], Some("two-too")),
    ("GET", "/two/b", &[], None),
    ("GET", "/weight-zero", &[], None),
    // Below: `order` and `enabled`.
    ("GET", "/order", &[], Some("order-first")),
    ("GET", "/order/tie", &[], Some("order-tie-one")),
    ("GET", "/order/off", &[], Some("order-on")),
];

/// `id`, `order`, other keys, and predicates of routes for which order matters.
const ORDERED: &[(&str, i32, &str, &str)] = &[
    ("order-last", 1, "", "Path=/order"),
    ("order-second", 0, "", "Path=/order"),
    ("order-first", -1, "", "Path=/order"),
    ("order-tie-one", 5, "", "Path=/order/tie"),
    ("order-tie-two", 5, "", "Path=/order/tie"),
    ("order-off", -5, "enabled: false, ", "Path=/order/off"),
    ("order-on", 0, "", "Path=/order/off"),
];

fn route(upstream: &Upstream, id: &str, order: i32, more: &str, predicates: &str) -> String {
    format!(
        "  - {{id: {id}, order: {order}, {more}uri: '{}', predicates: [{predicates}], filters: ['SetResponseHeader=X-Route,{id}']}}\n",
        upstream.uri()
    )
}

/// Returns the route that matches a request.
fn taken(client: &mut Connection, method: &str, target: &str, headers: &[(&str, &str)]) -> Option<String> {
    let answer = client.request(method, target, headers, b"");
    let route = answer.header("x-route").map(str::to_owned);
    assert_eq!(answer.status, if route.is_some() { 200 } else { 404 }, "{method} {target}");
    route
}

#[test]
fn each_predicate_matches_exactly_its_requests() {
    let upstream = Upstream::ok("reached");
    let plain = ROUTES.iter().map(|(id, predicates)| route(&upstream, id, 0, "", predicates));
    let ordered = ORDERED.iter().map(|(id, order, more, predicates)| route(&upstream, id, *order, more, predicates));
    let routes: String = plain.chain(ordered).collect();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, path: {{encoded-slash: keep}}}}\n\
         trusted-proxies: [127.0.0.1]\napi-version: {{use: {{header: X-Version}}}}\nroutes:\n{routes}"
    ));
    let mut client = gateway.connect();
    for (method, target, headers, expected) in CASES {
        let route = taken(&mut client, method, target, headers);
        assert_eq!(route.as_deref(), *expected, "{method} {target} {headers:?}");
    }
    let drawn: Vec<Option<String>> = (0..64).map(|_| taken(&mut client, "GET", "/weight", &[])).collect();
    let share = |route: &str| drawn.iter().filter(|taken| taken.as_deref() == Some(route)).count();
    // The probability that one of two equal routes is never drawn is 2^-63.
    assert!(share("weight-a") > 0 && share("weight-b") > 0, "{drawn:?}");
    assert_eq!(share("weight-a") + share("weight-b"), 64, "{drawn:?}");
}

#[test]
fn spring_predicate_settings_apply_in_an_application_yml() {
    let upstream = Upstream::ok("reached");
    let routes: String = [
        ("host", "Path=/host, 'Host=**.foo.org'"),
        ("version", "'Path=/{version}/**', 'Version=1.1+'"),
        ("bare", "'Query=bare'"),
    ]
    .iter()
    .map(|(id, predicates)| route(&upstream, id, 0, "", predicates))
    .collect();
    let gateway = Gateway::start(&format!(
        "spring.webflux: {{base-path: /api, apiversion: {{use: {{path-segment: 0}}, supported: ['1.1', '1.3']}}}}\n\
         spring.cloud.gateway.server.webflux:\n  predicate.host.include-port: false\n  routes:\n{routes}"
    ));
    let mut client = gateway.connect();
    for (target, host, expected) in [
        ("/api/host", "www.foo.org:8080", Some("host")),
        ("/host", "www.foo.org:8080", None),
        ("/api/v1.3/x", "a", Some("version")),
        ("/api/v1.2/x", "a", None),
        ("/api/v1.0/x", "a", None),
        ("/v1.3/x", "a", None),
        ("/api/x?bare", "a", Some("bare")),
        ("/api?bare", "a", Some("bare")),
        ("/apix?bare", "a", None),
        ("/other?bare", "a", None),
    ] {
        let route = taken(&mut client, "GET", target, &[("Host", host)]);
        assert_eq!(route.as_deref(), expected, "{target} {host}");
    }
    let path = "Paths: [/api/host], match trailing slash: false";
    let shown = gateway.admin("/actuator/gateway/routes/host").json();
    assert_eq!(shown["predicate"], format!("({path} && Hosts: [**.foo.org])"));
}

#[test]
fn version_never_matches_without_a_source_of_versions_as_in_spring() {
    let upstream = Upstream::ok("reached");
    for default in ["", "apiversion: {default: 1}"] {
        let gateway = Gateway::start(&format!(
            "spring.webflux: {{{default}}}\nspring.cloud.gateway.routes:\n\
             - {{id: version, uri: '{}', predicates: ['Version=1']}}\n",
            upstream.uri()
        ));
        assert_eq!(gateway.get("/x").status, 404, "{default}");
    }
}

#[test]
fn the_port_of_host_is_included_as_in_spring_if_configured() {
    let upstream = Upstream::ok("reached");
    for (setting, expected) in [("", Some("a")), ("true", None), ("false", Some("a"))] {
        let setting = if setting.is_empty() { String::new() } else { format!("host: {{include-port: {setting}}}") };
        let routes = route(&upstream, "a", 0, "", "'Host=**.foo.org'");
        let gateway = Gateway::start(&format!("predicate: {{{setting}}}\nroutes:\n{routes}"));
        let mut client = gateway.connect();
        assert_eq!(taken(&mut client, "GET", "/", &[("Host", "www.foo.org:8080")]).as_deref(), expected, "{setting}");
        assert_eq!(taken(&mut client, "GET", "/", &[("Host", "www.foo.org")]).as_deref(), Some("a"), "{setting}");
    }
}

#[test]
fn a_request_with_an_undecided_predicate_is_refused_and_counted() {
    let slow = "(?=(a+)+$)(a|aa)+b";
    let gateway = Gateway::start(&format!(
        "routes:\n- {{id: one, uri: 'no://op', predicates: [Path=/one, 'Header=X-A,{slow}'], filters: [SetStatus=201]}}\n\
         - {{id: not, uri: 'no://op', predicates: [Path=/not, {{not: 'Header=X-A,{slow}'}}], filters: [SetStatus=202]}}\n\
         - {{id: rest, uri: 'no://op', predicates: [Path=/**]}}\n"
    ));
    let long = "a".repeat(200);
    let ask = |path: &str, value: &str| gateway.connect().request("GET", path, &[("x-a", value)], b"").status;
    assert_eq!([ask("/one", &long), ask("/not", &long)], [400, 400]);
    assert_eq!([ask("/one", "x"), ask("/not", "x"), ask("/rest", &long)], [200, 202, 200]);
    let refused = || gateway.metric("tollgate_unrouted_requests_total", &["status=\"400\""]);
    crate::support::eventually("refused requests are counted", || refused() >= 2.0);
}
