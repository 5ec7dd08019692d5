//! Filters that edit requests and responses, with Spring's corner cases, through the gateway to a real upstream.

use crate::support::client::Response;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Request, Upstream, response};

/// Filters, additional predicates, and the target at the upstream for a requested target.
const TARGETS: &[(&str, &str, &str, &str)] = &[
    ("StripPrefix", "", "/a/b/?c=%20", "/b/?c=%20"),
    ("StripPrefix=2", "", "/a/b", "/"),
    ("StripPrefix=2", "", "/a/b/c%2Fd/", "/c%2Fd/"),
    ("PrefixPath=/p", "", "/a?b", "/p/a?b"),
    ("'PrefixPath=/p/{x}'", "'Path=/{x}/**'", "/a%20b/c", "/p/a%20b/a%20b/c"),
    ("'SetPath=/{y}/{x}'", "'Path=/{x}/{y}'", "/a/b%2Fc?d", "/b%2Fc/a?d"),
    ("'SetPath=/n{x:.*}'", "'Path=/o/{*x}'", "/o/a/b", "/n/a/b"),
    (r"'RewritePath=/red/?(?<segment>.*), /$\{segment}'", "", "/red/blue?q", "/blue?q"),
    (r"'RewritePath=/red/?(?<segment>.*), /$\{segment}'", "", "/red", "/"),
    (r"'RewritePath=/(?<a>[^/]+)/(?<b>.*),/$\{b}/$1'", "", "/a/b/c", "/b/c/a"),
    ("'RewritePath=/v1/|/v2/,/'", "", "/v1/a/v2/b", "/a/b"),
    ("'RewritePath=^/(?!api/),/api/'", "", "/a/b", "/api/a/b"),
    ("'RewritePath=^/(?!api/),/api/'", "", "/api/b", "/api/b"),
    (r"'RewritePath=/(?<l>\w+)/x, /x?lang=$\{l}'", "", "/de/x", "/x?lang=de"),
    (r"'RewritePath=/(?<l>\w+)/x, /x?lang=$\{l}&'", "", "/de/x?q=/../", "/x?lang=de&q=/../"),
    ("{name: RewritePath, args: {regexp: (?i)/API, replacement: ''}}", "", "/api/x", "/x"),
    ("'RewritePath=%20,_'", "", "/a%20b", "/a_b"),
    ("'AddRequestParameter=red, blue'", "", "/a", "/a?red=blue"),
    ("'AddRequestParameter=red, blue'", "", "/a?x=%2f+[&red=1", "/a?x=%2f+[&red=1&red=blue"),
    ("'AddRequestParameter=id, {x}'", "'Path=/{x}'", "/a&b=c%20", "/a&b=c%20?id=a%26b%3Dc%20"),
    ("RemoveRequestParameter=red", "", "/a?red=1&b=%2f+&red", "/a?b=%2F%20"),
    ("RemoveRequestParameter=red", "", "/a?red", "/a"),
    ("RemoveRequestParameter=red", "", "/a?b=%2f+", "/a?b=%2f+"),
    ("'RewriteRequestParameter=red, new value'", "", "/a?red=1&b&red=2", "/a?b&red=new%20value"),
    ("'RewriteRequestParameter=red, new'", "", "/a?b=%2f", "/a?b=%2f"),
    ("StripPrefix, PrefixPath=/p, 'RewritePath=/p/(.*),/q/$1'", "", "/a/b", "/q/b"),
];

/// Filters, fields from the client, and one field with its values at the upstream.
const FIELDS: &[(&str, &str, &str, &str)] = &[
    ("'AddRequestHeader=X-A, two'", "X-A: one", "X-A", "one|two"),
    ("'AddRequestHeader=X-A, {x}'", "", "X-A", "path"),
    ("'SetRequestHeader=X-A, new'", "X-A: one; X-A: two", "X-A", "new"),
    ("RemoveRequestHeader=X-A", "X-A: one; X-A: two", "X-A", ""),
    ("'AddRequestHeadersIfNotPresent=X-A:1,X-B:2'", "X-A: 0", "X-A", "0"),
    ("'AddRequestHeadersIfNotPresent=X-A:1,X-B:2'", "X-A: 0", "X-B", "2"),
    ("'AddRequestHeadersIfNotPresent=X-A:1,x-a:2'", "", "X-A", "1|2"),
    ("'AddRequestHeadersIfNotPresent=X-A:{x}'", "X-A:", "X-A", "|path"),
    ("'MapRequestHeader=X-A,X-B'", "X-A: 1; X-A: 2; X-B: 0", "X-B", "0|1|2"),
    ("'MapRequestHeader=X-A,X-B'", "X-A: 1", "X-A", "1"),
    ("'MapRequestHeader=X-A,X-B'", "X-B: 0", "X-B", "0"),
    ("StripPrefix", "", "Host", "UPSTREAM"),
    ("PreserveHostHeader", "", "Host", "ROUTE"),
    ("SetRequestHostHeader=other.test:81", "", "Host", "other.test:81"),
    ("'SetRequestHostHeader={x}.test'", "", "Host", "path.test"),
    ("PreserveHostHeader, 'SetRequestHeader=Host, set.test'", "", "Host", "set.test"),
    ("PreserveHostHeader, 'AddRequestHeader=Host, set.test'", "", "Host", "set.test"),
];

/// Filters, fields from the upstream, and one field with its values at the client.
const ANSWERS: &[(&str, &str, &str, &str)] = &[
    ("'AddResponseHeader=X-A, two'", "X-A: one", "X-A", "one|two"),
    ("'AddResponseHeader=X-A, two, false'", "X-A: one", "X-A", "one"),
    ("'AddResponseHeader=X-A, two, false'", "X-A:", "X-A", "|two"),
    ("'SetResponseHeader=X-A, {x}'", "X-A: one; X-A: two", "X-A", "path"),
    ("RemoveResponseHeader=X-A", "X-A: one", "X-A", ""),
    ("DedupeResponseHeader=X-A X-B", "X-A: 1; X-A: 2; X-B: 3; X-B: 3", "X-A", "1"),
    ("DedupeResponseHeader=X-A X-B", "X-A: 1; X-A: 2; X-B: 3; X-B: 3", "X-B", "3"),
    ("'DedupeResponseHeader=X-A, RETAIN_LAST'", "X-A: 1; X-A: 2", "X-A", "2"),
    ("'DedupeResponseHeader=X-A, retain-unique'", "X-A: 1; X-A: 2; X-A: 1", "X-A", "1|2"),
    ("DedupeResponseHeader=X-A", "X-A: 1, 1", "X-A", "1, 1"),
    ("DedupeResponseHeader=X-A, 'AddResponseHeader=X-A,2'", "X-A: 1", "X-A", "1"),
    ("'AddResponseHeader=X-A,2', DedupeResponseHeader=X-A", "X-A: 1; X-A: 1", "X-A", "1|2"),
    (
        r"'RewriteResponseHeader=X-A, password=[^&]+, password=***'",
        "X-A: /?password=a&b; X-A: c",
        "X-A",
        "/?password=***&b|c",
    ),
    (r"'RewriteResponseHeader=X-A, (?<k>\w+)=(\w+), $\{k}:$2'", "X-A: a=1, b=2", "X-A", "a:1, b:2"),
    ("'RewriteResponseHeader=X-A, a(?=b), x'", "X-A: ab ac", "X-A", "xb ac"),
    ("'RewriteResponseHeader=X-A, a, b'", "", "X-A", ""),
    ("RewriteLocationResponseHeader", "Location: http://backend:81/v2/id", "Location", "http://ROUTE/id"),
    ("RewriteLocationResponseHeader=NEVER_STRIP", "Location: http://backend/v2/id", "Location", "http://ROUTE/v2/id"),
    (
        "'RewriteLocationResponseHeader=ALWAYS_STRIP, Link, a.test:1'",
        "Link: https://b/v2/id",
        "Link",
        "https://a.test:1/id",
    ),
    ("RewriteLocationResponseHeader", "Location: /v2/id", "Location", "/v2/id"),
    (
        "RewriteLocationResponseHeader, SetRequestHostHeader=b, StripPrefix",
        "Location: http://b/v2/id",
        "Location",
        "http://ROUTE/id",
    ),
    ("SetPath=/v1/a, RewriteLocationResponseHeader", "Location: http://b/v2/id", "Location", "http://ROUTE/v2/id"),
    ("SetStatus=ACCEPTED", "", "X-Original", "[200]"),
    ("SetStatus=480", "", ":status", "480"),
    ("'RedirectTo=302, http://a.test/b?c=1#d, true'", "", "Location", "http://a.test/b?c=1&q=1#d"),
    ("'RedirectTo=FOUND, http://a.test/b'", "", "Location", "http://a.test/b"),
    ("'RedirectTo=308, http://a.test/b'", "", ":status", "308"),
    ("{name: RequestSize, args: {maxSize: 5}}", "", ":status", "413"),
    (
        "{name: RequestSize, args: {maxSize: 5}}",
        "",
        "errorMessage",
        "Request size is larger than permissible limit. Request size is 6 B where permissible limit is 5 B",
    ),
];

/// Answers with the fields in the request's `X-Answer`.
fn upstream() -> Upstream {
    Upstream::start(|request| {
        let asked = request.header("x-answer").unwrap_or_default().to_owned();
        response(200, &fields(&asked), b"")
    })
}

/// Parses `A: 1; B: 2` as fields.
fn fields(text: &str) -> Vec<(&str, &str)> {
    let fields = text.split("; ").filter(|field| !field.is_empty()).map(|field| field.split_once(':').unwrap());
    fields.map(|(name, value)| (name, value.trim())).collect()
}

/// Returns the route for the host `host`.
fn route(host: &str, upstream: &Upstream, predicates: &str, filters: &str) -> String {
    let comma = if predicates.is_empty() { "" } else { ", " };
    let uri = upstream.uri();
    format!("- {{id: {host}, uri: '{uri}', predicates: [Host={host}{comma}{predicates}], filters: [{filters}]}}\n")
}

/// Each case has a route and a host of its own.
#[test]
fn every_edit_filter_behaves_as_in_spring() {
    let upstream = upstream();
    let mut routes = String::from(
        "server: {address: 127.0.0.1, workers: 1, path: {encoded-slash: keep}}\nset-status: \
         {original-status-header-name: X-Original}\nroutes:\n",
    );
    for (n, (filters, predicates, ..)) in TARGETS.iter().enumerate() {
        routes += &route(&format!("t{n}"), &upstream, predicates, filters);
    }
    for (kind, table) in [("f", FIELDS), ("a", ANSWERS)] {
        for (n, (filters, ..)) in table.iter().enumerate() {
            routes += &route(&format!("{kind}{n}"), &upstream, "'Path=/{x}/**'", filters);
        }
    }
    let gateway = Gateway::start(&routes);
    let mut client = gateway.connect();
    let mut seen = 0;
    let mut passed = |upstream: &Upstream| -> Request {
        seen += 1;
        upstream.requests().get(seen - 1).expect("the upstream was called").clone()
    };
    for (n, (filters, _, target, expected)) in TARGETS.iter().enumerate() {
        let answer = client.request("GET", target, &[("Host", &format!("t{n}"))], b"");
        assert_eq!(answer.status, 200, "{filters} on {target}");
        assert_eq!(passed(&upstream).target(), *expected, "{filters} on {target}");
    }
    for (n, (filters, sent, name, expected)) in FIELDS.iter().enumerate() {
        let host = format!("f{n}");
        let mut sent = fields(sent);
        sent.push(("Host", &host));
        assert_eq!(client.request("GET", "/path/b", &sent, b"").status, 200, "{filters}");
        let expected = expected.replace("ROUTE", &host).replace("UPSTREAM", &upstream.address.to_string());
        assert_eq!(passed(&upstream).all(name).join("|"), expected, "{filters}");
    }
    for (n, (filters, asked, name, expected)) in ANSWERS.iter().enumerate() {
        let host = format!("a{n}");
        let answer = client.request("POST", "/path/b?q=1", &[("Host", &host), ("X-Answer", asked)], b"123456");
        let found = match *name {
            ":status" => answer.status.to_string(),
            name => answer.all(name).join("|"),
        };
        assert_eq!(found, expected.replace("ROUTE", &host), "{filters}: {answer:?}");
    }
}

/// Spring reads a path and ignores the text after it; Tollgate's own form refuses it.
#[test]
fn a_spring_path_ends_at_its_query() {
    let upstream = upstream();
    let cases = [("PrefixPath=/p?left=out", "/a?b", "/p/a?b"), ("SetPath=/{x}/p#left-out", "/a?b", "/a/p?b")];
    let mut routes = String::new();
    for (n, (filter, ..)) in cases.iter().enumerate() {
        routes += &route(&format!("t{n}"), &upstream, "'Path=/{x}'", &format!("'{filter}'"));
    }
    let gateway = Gateway::start(&format!("spring.cloud.gateway.routes:\n{routes}"));
    let mut client = gateway.connect();
    for (n, (filter, target, expected)) in cases.iter().enumerate() {
        let answer = client.request("GET", target, &[("Host", &format!("t{n}"))], b"");
        assert_eq!(answer.status, 200, "{filter}");
        assert_eq!(upstream.requests()[n].target(), *expected, "{filter}");
    }
}

/// A filter that sets a target replaces the whole old target, at any position in the list; an invalid target is
/// ignored.
#[test]
fn the_target_follows_a_header_or_a_template() {
    let (own, other) = (Upstream::ok("own"), Upstream::ok("other"));
    let elsewhere = other.address;
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, path: {{encoded-slash: keep}}}}\nroutes:\n\
         - {{id: header, uri: '{own}', predicates: [Path=/header], filters: [RequestHeaderToRequestUri=X-To, StripPrefix]}}\n\
         - {{id: template, uri: '{own}', predicates: ['Path=/template/{{x}}'], filters: ['SetRequestUri=http://{elsewhere}/{{x}}?y', PrefixPath=/p]}}\n",
        own = own.uri()
    ));
    let mut client = gateway.connect();
    for (path, header, body, target) in [
        ("/header", format!("http://{elsewhere}/a?b"), "other", "/a?b"),
        ("/header", "/a".to_owned(), "own", "/"),
        ("/header", "file:///a".to_owned(), "own", "/"),
        ("/template/z%2F?q", String::new(), "other", "/z%2F?y"),
    ] {
        let answer = client.request("GET", path, &[("X-To", &header)], b"");
        assert_eq!(answer.text(), body, "{path} {header}");
        let upstream = if body == "own" { &own } else { &other };
        let request = upstream.requests().pop().unwrap();
        assert_eq!(request.target(), target, "{path} {header}");
        assert_eq!(request.header("host"), Some(upstream.address.to_string().as_str()), "{path} {header}");
    }
}

/// Default filters and route filters are numbered separately and merged by number. Tokens are trimmed, empty ones
/// dropped, and surplus arguments ignored. A request gets one prefix.
#[test]
fn default_and_route_filters_interleave_as_in_spring() {
    let upstream = upstream();
    let gateway = Gateway::start(&format!(
        r"spring:
  cloud:
    gateway:
      default-filters:
        - AddRequestHeader=X-Order, d1
        - AddRequestHeader= X-Order , , d2 , ignored
        - PrefixPath=/default
        - AddResponseHeader=X-Order, d4
      routes:
        - id: one
          uri: {}/ignored?too
          predicates: [Path=/red/**]
          filters:
            - AddRequestHeader=X-Order, r1
            - AddRequestHeader=X-Order, r2
            - RewritePath=/default/red/(?<segment>.*), /$\{{segment}}
            - AddResponseHeader=X-Order, r4
            - PrefixPath=/route
",
        upstream.uri()
    ));
    let answer: Response = gateway.get("/red/blue");
    let request = upstream.requests().pop().unwrap();
    assert_eq!(request.all("x-order"), ["d1", "r1", "d2", "r2"]);
    assert_eq!(request.target(), "/blue");
    assert_eq!(answer.all("x-order"), ["r4", "d4"]);
}
