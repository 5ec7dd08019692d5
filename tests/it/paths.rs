//! Paths are matched in normal form. Those with two meanings are refused.

use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// Keeps encoded slashes in their segments.
const KEEP: &str = "server: {address: 127.0.0.1, workers: 1, path: {encoded-slash: keep}}\n";

#[test]
fn a_path_that_cannot_be_normalized_is_refused() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    for path in [
        "*",
        "x",
        "/..",
        "/../a",
        "/a/../../b",
        "/%2e%2e/a",
        "/a%00",
        "/a%5cb",
        "/a%5C..%5Cb",
        "/a\\b",
        "/a/..;/b",
        "/a/..;x=y/b",
        "/a/%2e%2e;/b",
        "/a/.;/b",
        "/a%2fb",
        "/a%2Fb",
        "/;x/a",
        "/;/a",
        "/a/..%3B/b",
        "/a%",
        "/a%2",
        "/a%zz",
        "/a<b",
        "/a\"b",
        "/\u{e9}",
    ] {
        let answer = gateway.get(path);
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.text().starts_with("Bad Request: "), "{path}: {}", answer.text());
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn no_spelling_of_a_path_bypasses_a_route() {
    let open = Upstream::ok("open");
    let guarded = Upstream::ok("guarded");
    let gateway = Gateway::start(&format!(
        "routes: [{{id: guarded, uri: '{}', predicates: [Path=/admin/**], filters: [SetStatus=403]}}, \
         {{id: open, uri: '{}', predicates: [Path=/**]}}]",
        guarded.uri(),
        open.uri()
    ));
    for path in [
        "/admin",
        "/admin/x",
        "//admin/x",
        "/./admin/x",
        "/%61dmin/x",
        "/open/../admin/x",
        "/open/%2e%2e/admin/x",
        "/open/x/..//../admin/x",
        "http://localhost/open/../admin/x",
        "http://localhost//admin",
    ] {
        assert_eq!(gateway.get(path).status, 403, "{path}");
    }
    for path in ["/;x/admin", "/;/admin", "/x/..%2Fadmin", "/x/..%3B/admin", "/x/..%5Cadmin", "/x%2F..%2Fadmin"] {
        assert_eq!(gateway.get(path).status, 400, "{path}");
    }
    assert_eq!(open.requests().len(), 0);
    assert_eq!(guarded.requests().len(), 10);
}

#[test]
fn no_parameters_in_segments_dodge_a_limit() {
    const SPELLINGS: [(&str, u16); 25] = [
        ("/login", 429),
        ("/login;", 429),
        ("/login;x", 429),
        ("/login;x=1;y=2", 429),
        ("/l%6Fgin;x", 429),
        ("/x;/../login", 429),
        ("/x;y/../login;z", 429),
        ("//login", 429),
        ("/./login", 429),
        ("/x/;a=b/../login", 400),
        ("/;x", 400),
        ("/;x/", 400),
        ("/;x/login", 400),
        ("/a/;/b", 400),
        ("/a/..;x/b", 400),
        ("/a/..;/login", 400),
        ("/.;x/login", 400),
        ("/%2e;/login", 400),
        ("/%3Bx/login", 400),
        ("/%3B/login", 400),
        ("//;x//login", 400),
        ("/login/;x/..", 400),
        ("/x/%2e%2e%3bx/login", 400),
        ("/login/..;/login", 400),
        ("/login;x/.;/", 400),
    ];
    let upstream = Upstream::ok("reached");
    let limit = "{name: RequestRateLimiter, args: {algorithm: fixed-window, limit: 1, window: 1h, key-resolver: path}}";
    let routes = format!(
        "routes: [{{id: login, uri: '{0}', predicates: [Path=/login], filters: [{limit}]}}, \
         {{id: open, uri: '{0}', predicates: [Path=/**]}}]",
        upstream.uri()
    );
    for file in [routes.clone(), format!("spring.cloud.gateway.server.webflux:\n  {routes}")] {
        let gateway = Gateway::start(&file);
        assert_eq!(gateway.get("/login").status, 200);
        let before = upstream.requests().len();
        for (path, expected) in SPELLINGS {
            assert_eq!(gateway.get(path).status, expected, "{path}");
        }
        assert_eq!(upstream.requests().len(), before);
    }
}

#[test]
fn an_encoded_slash_does_not_split_a_segment() {
    let upstream = Upstream::ok("reached");
    let routes = format!(
        "routes: [{{id: one, uri: '{}', predicates: ['Path=/files/{{name}}'], filters: ['SetPath=/stored/{{name}}']}}]",
        upstream.uri()
    );
    let spring = format!("spring.cloud.gateway:\n  {routes}");
    for yaml in [format!("{KEEP}{routes}"), spring] {
        let gateway = Gateway::start(&yaml);
        assert_eq!(gateway.get("/files/a%2fb").status, 200);
        assert_eq!(gateway.get("/files/a/b").status, 404);
        assert_eq!(upstream.targets().last().unwrap(), "/stored/a%2Fb");
        for path in ["/files/..%2Fb", "/files/a%2F..", "/;x/files/a", "/x/..%3B/files/a", "/files/a%5Cb"] {
            assert_eq!(gateway.get(path).status, 400, "{path}");
        }
    }
}

#[test]
fn encoded_separators_are_decoded_if_configured() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, path: {{encoded-slash: decode, backslash: decode}}}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/login], filters: [SetStatus=401]}}, \
         {{id: b, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri(),
        upstream.uri()
    ));
    for path in ["/x/..%2Flogin", "/x/..%5clogin", "/x\\..\\login", "/x%2F..%2flogin"] {
        assert_eq!(gateway.get(path).status, 401, "{path}");
        assert_eq!(upstream.targets().last().unwrap(), "/login", "{path}");
    }
    assert_eq!(gateway.get("/a%2Fb").status, 200);
    assert_eq!(upstream.targets().last().unwrap(), "/a/b");
}

#[test]
fn a_fragment_is_not_forwarded() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    for target in ["/a#b", "/a#/../b", "/a?b#c"] {
        let status = gateway.get(target).status;
        assert!([200, 400].contains(&status), "{status} to {target}");
    }
    assert!(upstream.targets().iter().all(|target| !target.contains('#')), "{:?}", upstream.targets());
}
